"""A proxy for tests, HTTP CONNECT and SOCKS 5 on two ports: proxyd.py ADDRESS HTTP_PORT SOCKS_PORT [USER:PASSWORD].
Prints what it is asked for, one line each."""

import base64
import socket
import sys
import threading

address, http_port, socks_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
login = sys.argv[4] if len(sys.argv) > 4 else None


def say(*words):
    print(*words, flush=True)


def pump(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def join(client, server):
    other = threading.Thread(target=pump, args=(server, client), daemon=True)
    other.start()
    pump(client, server)
    other.join()
    client.close()
    server.close()


def http(client):
    head = b""
    while b"\r\n\r\n" not in head:
        piece = client.recv(4096)
        if not piece:
            return
        head += piece
    lines = head.decode().split("\r\n")
    method, target, _ = lines[0].split(" ")
    want = "Proxy-Authorization: Basic " + base64.b64encode(login.encode()).decode() if login else None
    if want and want not in lines:
        say("http", target, "407")
        client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        rest = client.recv(65536)
        say("more", rest.decode(errors="replace").split("\r\n")[0] or "-")
        client.close()
        return
    say("http", method, target)
    host, _, port = target.rpartition(":")
    server = socket.create_connection((host.strip("[]"), int(port)), 5)
    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
    join(client, server)


def exactly(s, n):
    data = b""
    while len(data) < n:
        piece = s.recv(n - len(data))
        if not piece:
            raise OSError
        data += piece
    return data


def socks(client):
    methods = exactly(client, exactly(client, 2)[1])
    if login:
        if 2 not in methods:
            client.sendall(b"\x05\xff")
            return
        client.sendall(b"\x05\x02")
        user = exactly(client, exactly(client, 2)[1])
        password = exactly(client, exactly(client, 1)[0])
        good = f"{user.decode()}:{password.decode()}" == login
        client.sendall(b"\x01\x00" if good else b"\x01\x01")
        if not good:
            say("socks denied")
            return
    else:
        client.sendall(b"\x05\x00")
    kind = exactly(client, 4)[3]
    host = socket.inet_ntop(socket.AF_INET, exactly(client, 4)) if kind == 1 else socket.inet_ntop(socket.AF_INET6, exactly(client, 16)) if kind == 4 \
        else exactly(client, exactly(client, 1)[0]).decode()
    port = int.from_bytes(exactly(client, 2), "big")
    say("socks", f"{host}:{port}")
    try:
        server = socket.create_connection((host, port), 5)
    except OSError:
        client.sendall(b"\x05\x05\x00\x01" + bytes(6))
        client.close()
        return
    client.sendall(b"\x05\x00\x00\x01" + bytes(6))
    join(client, server)


def serve(port, handler):
    listener = socket.create_server((address, port))
    if port == socks_port:
        say("ready")
    while True:
        client, _ = listener.accept()

        def go(c=client):
            try:
                handler(c)
            except OSError:
                c.close()
        threading.Thread(target=go, daemon=True).start()


threading.Thread(target=serve, args=(http_port, http), daemon=True).start()
serve(socks_port, socks)
