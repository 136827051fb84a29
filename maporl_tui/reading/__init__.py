"""From a run's store to what is shown of it; no widget is touched here."""
