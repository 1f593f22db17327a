"""Pure helpers, each in the file named for what it does. Nothing here waits or knows of the rest of weft."""
