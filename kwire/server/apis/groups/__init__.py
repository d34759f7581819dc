"""APIs for consumer groups and their offsets."""
