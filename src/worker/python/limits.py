"""Every bound of the Python worker, in one place. The agent sets the size of a frame (docs/design/008-interpreter.md)."""

FRAME_MAX = 60 << 20
"""Bytes of one result as JSON. The agent takes 64 MiB; fields beyond this are left out and named in `metadata.omitted`."""

TEXT_MAX = 32 << 20
"""Characters of one text field (repr, HTML …). A longer text is cut, and says so at its end."""

ERROR_TEXT_MAX = 16 << 10
"""Characters of an error's message. One character is at most 12 bytes of JSON; the whole error must stay below 1 MiB."""

ERROR_TRACE_MAX = 48 << 10
"""Characters of a whole traceback."""

TRACE_LINE_MAX = 4 << 10
"""Characters of one line of a traceback."""

PRETTY_ITEMS_MAX = 1000
"""Items of a container that are shown, as notebooks do."""

PRETTY_WIDTH = 79
"""Columns before a container is shown one item a line."""

JSON_NODES_MAX = 200_000
"""Values inside of a dict or list that is also given as `json`."""

JSON_DEPTH_MAX = 100
"""Nesting of such a value."""

TABLE_CELLS_MAX = 100_000
"""Cells of a pandas table that is also given as `data`."""

CHART_POINTS_MAX = 5_000
"""Points, bars or cells of all series of one figure. A longer series is sampled evenly and says so in `point_count`."""

HISTORY_MAX = 1000
"""Inputs and results that `In` and `Out` keep."""

WRITE_CHARS = 64 << 10
"""Characters that are encoded at once on their way to a stream."""
