"""Small helpers that every room may use and that know none of them."""
