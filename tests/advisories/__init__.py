"""Classes of public advisories in comparable software, each with a proof that it does not apply here. docs/security.md lists them."""
