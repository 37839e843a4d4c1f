"""The contract as cases. A package, so that the servers that its tests share end with the last of them and not with the run."""
