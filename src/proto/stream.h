/*
 * stream.h - the streams of backups: what BTRFS_IOC_SEND writes (fs/btrfs/send.h, version 1), and one command of ours.
 *
 * A stream is a head, then commands. A command is a head (length of its body, number, a checksum that is not looked
 * at) and attributes, each with a head of its own (type, length). Numbers are little-endian.
 *
 * atoll-backup puts STREAM_C_PUNCH in the place of writes of zeros (backup/holes.c): path, offset and size of a hole.
 * The number and its attributes are those of FALLOCATE in version 2 of the kernel's format, which version 1 never uses.
 * The file is as long as the end of the hole afterwards, if it was shorter. Objects from before this command have no
 * holes and need no other reader.
 */
#pragma once

enum { STREAM_HEAD = 17, STREAM_MAGIC = 13, STREAM_VERSION = 1, STREAM_COMMAND_HEAD = 10, STREAM_ATTRIBUTE_HEAD = 4 };

enum stream_command {
	STREAM_C_SUBVOL = 1,
	STREAM_C_SNAPSHOT,
	STREAM_C_MKFILE,
	STREAM_C_MKDIR,
	STREAM_C_MKNOD,
	STREAM_C_MKFIFO,
	STREAM_C_MKSOCK,
	STREAM_C_SYMLINK,
	STREAM_C_RENAME,
	STREAM_C_LINK,
	STREAM_C_UNLINK,
	STREAM_C_RMDIR,
	STREAM_C_SET_XATTR,
	STREAM_C_REMOVE_XATTR,
	STREAM_C_WRITE,
	STREAM_C_CLONE,
	STREAM_C_TRUNCATE,
	STREAM_C_CHMOD,
	STREAM_C_CHOWN,
	STREAM_C_UTIMES,
	STREAM_C_END,
	STREAM_C_PUNCH = 23,
	STREAM_C_COUNT
};

enum stream_attribute {
	STREAM_A_SIZE = 4,
	STREAM_A_MODE = 5,
	STREAM_A_UID = 6,
	STREAM_A_GID = 7,
	STREAM_A_RDEV = 8,
	STREAM_A_MTIME = 10,
	STREAM_A_ATIME = 11,
	STREAM_A_XATTR_NAME = 13,
	STREAM_A_XATTR_DATA = 14,
	STREAM_A_PATH = 15,
	STREAM_A_PATH_TO = 16,
	STREAM_A_PATH_LINK = 17,
	STREAM_A_FILE_OFFSET = 18,
	STREAM_A_DATA = 19,
	STREAM_A_CLONE_PATH = 22,
	STREAM_A_CLONE_OFFSET = 23,
	STREAM_A_CLONE_LEN = 24,
	STREAM_A_COUNT = 25
};
