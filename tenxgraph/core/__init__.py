"""Two layers under one name: `core.state` lies below storage, `core.graph` above it."""
