"""Certificates of a trial, with any life: an authority, and a server at `localhost`."""

import os

from processes import run


def make_authority(directory):
    directory.mkdir()
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650",
        "-subj", "/CN=drill authority", "-keyout", directory / "ca.key", "-out", directory / "ca.pem",
        "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")


def make_server(directory, days):
    """Puts a certificate of this life and its key into the place of the earlier ones."""
    run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost",
        "-keyout", directory / "new.key", "-out", directory / "new.csr")
    extensions = "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n"
    (directory / "extensions").write_text(extensions)
    run("openssl", "x509", "-req", "-in", directory / "new.csr", "-CA", directory / "ca.pem", "-CAkey",
        directory / "ca.key", "-CAcreateserial", "-days", days, "-extfile", directory / "extensions", "-out",
        directory / "new.pem")
    os.chmod(directory / "new.key", 0o600)
    os.replace(directory / "new.key", directory / "server.key")
    os.replace(directory / "new.pem", directory / "server.pem")
