"""APIs for topics."""
