"""What commands print: tables, progress, discussions, cards."""
