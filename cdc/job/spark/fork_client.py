"""Asks the fork server for a stream reader, in place of starting one. Run as a script with next to no imports.

Spark starts it with the environment that the reader is to have. Arguments: the server's socket, then Python's own.
"""

import json
import os
import socket
import sys


def main() -> None:
    """Hand over environment, folder and output streams; become the reader itself where the server does not answer."""
    path, *arguments = sys.argv[1:]
    asked = json.dumps({"environment": dict(os.environ), "folder": os.getcwd()}).encode()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            folder = os.open(os.path.dirname(path), os.O_PATH)  # a long path is no address of a socket
            server.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
            os.close(folder)
            server.sendall(b"r" + len(asked).to_bytes(8, "big"))
            socket.send_fds(server, [b"f"], [1, 2])
            server.sendall(asked)
            answer = server.recv(1)
    except OSError as error:
        answer = str(error).encode()
    if answer != b"k":
        os.write(2, b"the fork server does not answer, a stream reader starts without it: " + answer + b"\n")
        os.execv(sys.executable, [sys.executable, *arguments])


main()
