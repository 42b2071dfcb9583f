"""Server-Sent Events, read as they come."""

import json
import time

import atoll


class Events:
    """An event stream that is being read: iterate, or wait for one event. Closing it is a client that goes away."""

    def __init__(self, connection, response):
        self.connection, self.response, self.status = connection, response, response.status
        self.ids = []  # of the events so far, None for one without

    def _lines(self):
        """Each event, and None for each line that ends none: also a quiet stream says something now and then."""
        data, event_id = [], None
        while line := self.response.readline():
            line = line.rstrip(b"\n")
            if line.startswith(b"id: "):
                event_id = int(line[4:])
            elif line.startswith(b"data: "):
                data.append(line[6:])
            elif not line and data:
                self.ids.append(event_id)
                yield json.loads(b"\n".join(data))
                data, event_id = [], None
                continue
            yield None

    def __iter__(self):
        return (event for event in self._lines() if event is not None)

    def with_ids(self):
        """(id or None, event) of each."""
        return ((self.ids[-1], event) for event in self)

    def until(self, condition):
        """Everything up to and with the first event that fits."""
        seen, end = [], time.monotonic() + atoll.DEADLINE
        for event in self._lines():
            if event is not None:
                seen.append(event)
                if condition(event):
                    return seen
            if time.monotonic() > end:
                break
        raise AssertionError(f"it did not come; the stream said {seen[-20:]}")

    def close(self):
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
