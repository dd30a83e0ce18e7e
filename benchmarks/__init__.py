"""Every speed or size the course claims, each measured by one command."""
