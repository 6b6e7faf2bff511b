"""Messages of the sockets, sans-IO: one tagged union per direction."""
