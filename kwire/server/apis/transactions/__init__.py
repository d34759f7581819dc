"""APIs for transactions."""
