"""Errors as servers send them."""

from __future__ import annotations

#: The text without its stack traces → with them: as 26.9 and 25.8 write them, and HDFS.
WITH_STACK_TRACE = {
    "It failed": "It failed. Stack trace:\n\n0. ? @ 0x000000001d967133\n1. ? @ 0x000000000e717b9e\n",
    "It failed twice": (
        "It failed twice. Stack trace:\n\n0. ./build/./src/Common/Exception.cpp:111: DB::Exception::Exception(DB::"
        "Exception::MessageMasked&&, int, bool) @ 0x0000000010c8e8f2\n1. DB::f(std::vector<int>, char) @ 0x00000001"
    ),
    "It has none": "It has none. Stack trace:\n\n<Empty trace>",
    "Connection refused You can specify the structure manually": (
        "Connection refused, Stack trace (when copying this message, always include the lines below):\n\n"
        "0. ? @ 0x000000001d96cb72\n31. ? @ 0x0000000000000001 (version 26.9.2.1)\n"
        "You can specify the structure manually. Stack trace:\n\n0. ? @ 0x000000001d967133\n1. ? @ 0x000000000e717b9e"
    ),
    "Permission denied inode": "Permission denied\n\tat org.apache.A.b(A.java:1)\n\tat org.apache.C.d(C.java:2)inode",
    "Code: 395. Nothing to cut. It stays": "Code: 395. Nothing to cut. It stays",
}
