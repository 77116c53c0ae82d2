"""What is ready-made: agents, and tools for them."""
