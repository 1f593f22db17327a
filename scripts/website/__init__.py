"""The documentation site: pages, the API reference and `llms.txt`, built, with every link checked."""
