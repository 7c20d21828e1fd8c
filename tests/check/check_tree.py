#!/usr/bin/env python3
"""Does scripts/check-tree see what it is there for? A small lawful tree passes; each way of breaking a law is reported."""

import subprocess
import sys
import tempfile
from pathlib import Path

CHECK_TREE = Path(__file__).resolve().parents[2] / 'scripts' / 'check-tree'

LAWFUL = {
    'CMakeLists.txt': 'plait_room(base LIBS m)\nplait_room(tensor DEPS base)\nplait_room(device DEPS tensor)\n'
                      'if(X)\n  plait_room(plan DEPS device)\nendif()\n',
    'include/plait/a.h': '/* A header. */\n/* It says much. */\n#ifdef __cplusplus\nextern "C" {\n#endif\n'
                         '/* What f does. */\n/* Really. */\n/* Yes. */\nint f(void);\n#ifdef __cplusplus\n}\n#endif\n',
    'src/base/README.md': '# base\n',
    'src/base/a.c': '/* A file that calls exit(1) in this comment only. */\n#include "plait/a.h"\n\n'
                    'int f(void) {\n    static const char text[] = "assert(";\n    return text[0];\n}\n',
    'src/device/README.md': '# device\n',
    'src/device/device.h': '/* The interface. */\n',
    'src/device/cpu/README.md': '# cpu\n',
    'src/device/cpu/cpu.c': '/* A kind. */\n#include "device/device.h"\n',
    'tests/golden/x': 'TO' 'DO is data here\n',
}

# What is added or replaced, and a piece of the one line that must report it.
UNLAWFUL = [
    ({'src/base/b.c': '/* b */\n#include "plan/p.h"\n'}, 'src/base/b.c:2: base includes "plan/p.h", but plan stands below'),
    ({'src/base/b.c': '/* b */\n#include "a.h"\n'}, 'write the path from src/'),
    ({'src/base/b.c': '/* b */\n#include "plait/none.h"\n'}, 'is not in include/plait'),
    ({'src/attic/b.c': '/* b */\n', 'src/attic/README.md': ''}, 'src/attic is no room'),
    ({'src/device/sim/s.c': '/* s */\n#include "device/cpu/cpu.h"\n', 'src/device/sim/README.md': ''}, 'of another kind'),
    ({'src/plan/p.c': '/* p */\n#include "device/cpu/cpu.h"\n', 'src/plan/README.md': ''}, 'only the device interface'),
    ({'src/base/b.c': '/* b */\nint g(void) {\n' + '    f();\n' * 149 + '}\n'}, 'src/base/b.c:2: g has 151 lines'),
    ({'src/base/b.c': '/* b */\n' + 'int x;\n' * 1500}, 'src/base/b.c: 1501 lines'),
    ({'include/plait/a.h': 'int f(void);\nint g(void);\nint h(void);\n'}, 'include/plait: public headers have 0% comment lines'),
    ({'src/base/b.c': '/* b */\n' + 'int x;\n' * 20}, 'src: sources have 10% comment lines, at least 15%'),
    ({'src/base/b.c': 'int x;\n'}, 'does not open with a comment'),
    ({'src/plan/p.c': '/* p */\n'}, 'src/plan: has no README.md'),
    ({'src/base/README.md': 'line\n' * 101}, 'more than 100 lines'),
    ({'docs/d.md': '`src/base/a.c`, `src/base/NAME.c`,\n`src/base/c.c`.\n'}, 'docs/d.md:2: src/base/c.c does not exist'),
    ({'docs/d.md': 'one\nFIX' 'ME later\n'}, 'docs/d.md:2'),
    ({'docs/d.md': 'see /ho' 'me/somebody/notes\n'}, "docs/d.md:1: /ho" "me/s...: a path of somebody's machine"),
    ({'src/base/b.c': '/* b */\nvoid g(void) {\n    abort();\n}\n'}, 'src/base/b.c:3: abort()'),
    ({'src/base/b.c': '/* b */\nchar *g(void) {\n    return strdup("a");\n}\n'}, 'src/base/b.c:3: strdup()'),
    ({'include/plait/a.h': '/* A. */\n/* B. */\nsize_t f(void);\n'}, 'does not compile alone as c17'),
    ({'include/plait/a.h': '/* A. */\n/* B. */\nint f(int class);\n'}, 'does not compile alone as c++17'),
    ({'tests/golden/big': 'x' * (30 * 2**20)}, 'tests/golden: 31457'),
    ({'docs/covered-reports.md': '| B001 | all | `base/none` |\n'}, 'base/none: there is no tests/base/test_none.c'),
    ({'docs/covered-reports.md': '| B001 | all | `base/a:gone` |\n', 'tests/base/test_a.c': '/* a */\n'}, 'has no such case'),
]


def run(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return subprocess.run([CHECK_TREE, '--root', root, '--cc', sys.argv[1] if len(sys.argv) > 1 else 'cc', '--only',
                               'includes,sizes,comments,guides,paths,words,calls,headers,golden,covered'],
                              capture_output=True, text=True)


def main():
    failures = 0
    result = run(LAWFUL)
    if result.returncode != 0:
        failures += 1
        print(f'a lawful tree is refused:\n{result.stdout}{result.stderr}')
    for change, expected in UNLAWFUL:
        result = run(LAWFUL | change)
        if result.returncode != 1 or expected not in result.stdout:
            failures += 1
            print(f'not reported: {expected}\n{result.stdout}{result.stderr}')
    print(f'{len(UNLAWFUL) + 1} trees checked, {failures} wrong')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
