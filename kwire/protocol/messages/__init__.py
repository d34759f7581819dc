"""One module per API: its request, its response and their structs. The module's docstring says what the API is for."""
