"""What every server process needs: settings, a listening socket, a lifetime, garbage collection."""
