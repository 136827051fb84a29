"""Methods: what one is trained by, one file each.  No torch until a method is asked for maths."""
