"""What a release needs: the changelog, a look into the built packages, and whether every extra can be installed."""
