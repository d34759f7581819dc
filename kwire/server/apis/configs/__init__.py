"""APIs for configurations, quotas and metrics of clients."""
