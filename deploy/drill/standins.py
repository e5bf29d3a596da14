"""Small servers that stand in for what a trial lacks: a collector of traces, and a GPU's metrics."""

import http.server

from processes import WebServer


class Page:
    """An HTTP server that answers each call with its text."""

    def __init__(self, port, text="", kind="text/plain; version=0.0.4"):
        self.text = text
        page = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                self.rfile.read(int(self.headers.get("content-length") or 0))
                body = page.text.encode()
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer

            def log_message(self, *_):
                pass

        self.server = WebServer(port, Handler)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Gpus(Page):
    """The metrics of a worker with GPUs, for a machine that has none."""

    def show(self, gpus, errors=0):
        series = lambda name, value: "".join(
            f'{name}{{gpu="{gpu}",name="stand-in",place="0000:0{gpu}:00.0"}} {value}\n' for gpu in range(gpus))
        self.text = ("# TYPE cloakwork_gpu_memory_bytes gauge\n" + series("cloakwork_gpu_memory_bytes", 8e10)
                     + "# TYPE cloakwork_gpu_errors_total counter\n" + series("cloakwork_gpu_errors_total", errors))
