"""Hostile bodies against the whole server. A package, so that the servers that its tests share end with the last of them."""
