"""How attention is computed: one file for each way, all with the same result."""
