"""What operators ask over HTTP: read models in, nothing decided here."""
