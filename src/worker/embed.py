"""Writes an assembler file that holds files as data: embed.py OUT SYMBOL=FILE …

Each becomes the bytes between SYMBOL and SYMBOL_end.
"""
import os
import sys

with open(sys.argv[1], "w", encoding="ascii") as f:
    f.write('\t.section .rodata,"a",@progbits\n')
    for pair in sys.argv[2:]:
        symbol, path = pair.split("=", 1)
        f.write(f'\t.globl {symbol}, {symbol}_end\n{symbol}:\n\t.incbin "{os.path.abspath(path)}"\n{symbol}_end:\n')
    f.write('\t.section .note.GNU-stack,"",@progbits\n')
