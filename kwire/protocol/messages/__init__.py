"""Messages of Kafka's protocol. Each module declares one API: request, response and their structs."""
