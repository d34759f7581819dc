"""kwire: a real Kafka that you pip install."""
