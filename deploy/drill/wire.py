"""Wires: TCP connections that a trial can slow down, hold, cut and damage, as a network can."""

import asyncio
import threading


class Wire:
    """Listens on a port of loopback and leads each connection to the first target that takes it."""

    def __init__(self, port, targets):
        self.port, self.targets = port, list(targets)
        self.delay = 0.0  # seconds for each piece on its way to the target
        self.held = False  # whether bytes wait
        self.damage = None  # changes pieces on their way from the target
        self.tasks = set()
        LOOP.run(self.open())

    async def open(self):
        self.server = await asyncio.start_server(self.connect, "127.0.0.1", self.port, limit=1 << 20)

    async def connect(self, reader, writer):
        task = asyncio.current_task()
        self.tasks.add(task)
        try:
            there = await self.dial()
            if there is None:
                return
            try:
                both = [self.pump(reader, there[1], True), self.pump(there[0], writer, False)]
                ends = [asyncio.ensure_future(each) for each in both]
                try:
                    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for end in ends:
                        end.cancel()
            finally:
                there[1].close()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self.tasks.discard(task)
            writer.close()

    async def dial(self):
        for port in list(self.targets):
            try:
                return await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port, limit=1 << 20), 2)
            except (OSError, asyncio.TimeoutError):
                continue
        return None

    async def pump(self, reader, writer, forth):
        while piece := await reader.read(1 << 18):
            while self.held:
                await asyncio.sleep(0.05)
            if forth and self.delay:
                await asyncio.sleep(self.delay)
            if not forth and self.damage:
                piece = self.damage(piece)
            writer.write(piece)
            await writer.drain()

    def lead_to(self, targets):
        """Leads new connections elsewhere, and cuts the open ones."""
        self.targets = list(targets)
        self.cut()

    def cut(self):
        async def cut():
            for task in list(self.tasks):
                task.cancel()

        LOOP.run(cut())


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self):
        self.loop = None

    def run(self, work):
        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            threading.Thread(target=self.loop.run_forever, daemon=True).start()
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)


LOOP = Loop()
