"""A store with the calls of S3 that the server makes, in memory. It can refuse to write."""

import email.utils
import hashlib
import http.server
import re
import threading
import time
import urllib.parse
import xml.sax.saxutils

from processes import WebServer


class Bucket:
    """One bucket on a port of loopback. It takes any credentials."""

    NAME = "cloakwork"

    def __init__(self, port):
        self.objects, self.parts, self.lock = {}, {}, threading.Lock()
        self.refuses_writes = False
        bucket = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                self.connection.setsockopt(6, 1, 1)  # TCP_NODELAY

            def handle_call(self):
                url = urllib.parse.urlsplit(self.path)
                query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
                key = urllib.parse.unquote(url.path).removeprefix(f"/{bucket.NAME}").lstrip("/")
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                status, headers, content = bucket.answer(self.command, key, query, self.headers, body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if self.command != "HEAD":
                    self.send_header("content-length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_call

            def log_message(self, *_):
                pass

        self.server = WebServer(port, Handler)

    def answer(self, method, key, query, headers, body):
        with self.lock:
            if method in ("PUT", "POST", "DELETE") and self.refuses_writes:
                return error(403, "AccessDenied")
            if method == "GET" and "list-type" in query:
                return self.listed(query.get("prefix", ""))
            if method == "POST" and "uploads" in query:
                upload = hashlib.sha256(f"{key}{time.monotonic()}".encode()).hexdigest()
                self.parts[upload] = {}
                return document(f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId>"
                                "</InitiateMultipartUploadResult>")
            if method == "PUT" and "partNumber" in query:
                self.parts[query["uploadId"]][int(query["partNumber"])] = body
                return 200, {"ETag": etag(body)}, b""
            if method == "POST" and "uploadId" in query:
                parts = self.parts.pop(query["uploadId"])
                content = b"".join(parts[number] for number in sorted(parts))
                self.objects[key] = (content, time.time(), etag(content))
                return document(f"<CompleteMultipartUploadResult><ETag>{etag(content)}</ETag>"
                                "</CompleteMultipartUploadResult>")
            if method == "DELETE":
                self.parts.pop(query.get("uploadId"), None)
                if "uploadId" not in query:
                    self.objects.pop(key, None)
                return 204, {}, b""
            if method == "PUT":
                if headers.get("if-none-match") == "*" and key in self.objects:
                    return error(412, "PreconditionFailed")
                self.objects[key] = (body, time.time(), etag(body))
                return 200, {"ETag": etag(body)}, b""
            return self.read(method, key, headers)

    def read(self, method, key, headers):
        if key not in self.objects:
            return error(404, "NoSuchKey")
        content, changed, tag = self.objects[key]
        about = {"ETag": tag, "Last-Modified": email.utils.formatdate(changed, usegmt=True)}
        if method == "HEAD":
            return 200, about | {"content-length": str(len(content))}, b""
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range") or "")
        if not found:
            return 200, about, content
        first = int(found.group(1))
        last = min(int(found.group(2) or len(content) - 1), len(content) - 1)
        about["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return 206, about, content[first : last + 1]

    def listed(self, prefix):
        entries = "".join(
            f"<Contents><Key>{xml.sax.saxutils.escape(key)}</Key><Size>{len(content)}</Size><ETag>{tag}</ETag>"
            f"<LastModified>{time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime(changed))}</LastModified></Contents>"
            for key, (content, changed, tag) in sorted(self.objects.items()) if key.startswith(prefix))
        return document(f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>")


def etag(content):
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def document(text):
    return 200, {"content-type": "application/xml"}, f"<?xml version='1.0'?>{text}".encode()


def error(status, code):
    return status, {"content-type": "application/xml"}, f"<Error><Code>{code}</Code></Error>".encode()
