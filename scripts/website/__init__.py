"""The documentation site: pages copied, the API reference and `llms.txt` written, the site built, every link checked."""
