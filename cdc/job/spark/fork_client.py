"""Requests a stream reader or a daemon from the fork server instead of starting one. A script with few imports.

Spark starts this script with the environment and streams meant for the requested process, and takes it for that
process: so it lives as long as a daemon does, and Spark ends it. Arguments: the server's socket, then `-m MODULE ...`.
"""

import json
import os
import socket
import sys


def main() -> None:
    """Send environment, folder and streams to the server; become the process itself if the server does not answer."""
    path, _, *arguments = sys.argv[1:]
    request = json.dumps({"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}).encode()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            folder = os.open(os.path.dirname(path), os.O_PATH)  # the path may be too long for a socket address
            server.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
            os.close(folder)
            server.sendall(b"r" + len(request).to_bytes(8, "big"))
            socket.send_fds(server, [b"f"], [0, 1, 2])
            server.sendall(request)
            answer = server.recv(1)
            if answer == b"k":
                os.close(0)
                os.close(1)
                server.recv(1)  # until a daemon has ended
    except OSError as error:
        answer = str(error).encode()
    if answer != b"k":
        os.write(2, b"the fork server does not answer, a process starts without it: " + answer + b"\n")
        os.execv(sys.executable, [sys.executable, "-m", *arguments])


main()
