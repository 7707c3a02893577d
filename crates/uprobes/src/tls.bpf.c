// Zone: outside. Copies what OpenSSL has decrypted or is to encrypt into a ring buffer.
//
// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// Programs for the kernel. A thread that enters SSL_read or SSL_write is noted with its arguments;
// when it returns, the bytes that were read or written go into the ring, in pieces. Which
// connection an SSL object belongs to is learned from the kernel: the thread receives from a TCP
// socket while it is within SSL_read. So nothing of OpenSSL's structures has to be known.
//
// The positions of all bytes are counted, also of those that found no space: the reader sees from
// the next piece how many are missing.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define FIELD(name, value) int(*name)[value]
#define MAP_HASH 1
#define MAP_ARRAY 2
#define MAP_RINGBUF 27
#define MMAPABLE (1 << 10)
#define NO_EXIST 1
#define NO_WAKEUP 1

static void* (*const lookup)(void* map, const void* key) = (void*)1;
static long (*const update)(void* map, const void* key, const void* value, u64 flags) = (void*)2;
static long (*const forget)(void* map, const void* key) = (void*)3;
static u64 (*const now_ns)(void) = (void*)5;
static u64 (*const thread)(void) = (void*)14;
static long (*const read_user)(void* to, u32 bytes, const void* from) = (void*)112;
static long (*const read_kernel)(void* to, u32 bytes, const void* from) = (void*)113;
static void* (*const reserve)(void* ring, u64 bytes, u64 flags) = (void*)131;
static void (*const submit)(void* slot, u64 flags) = (void*)132;
static void (*const discard)(void* slot, u64 flags) = (void*)133;
static long (*const repeat)(u32 times, void* each, void* context, u64 flags) = (void*)181;

// Registers of a function call on x86-64, as the kernel saves them.
struct registers {
    u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags;
    u64 sp, ss;
};

// The part of a socket that is read. The loader finds the real positions in the kernel's BTF.
struct in6_addr {
    u8 bytes[16];
} __attribute__((preserve_access_index));

struct sock_common {
    u32 skc_daddr;
    u32 skc_rcv_saddr;
    u16 skc_dport;
    u16 skc_num;
    u16 skc_family;
    struct in6_addr skc_v6_daddr;
    struct in6_addr skc_v6_rcv_saddr;
} __attribute__((preserve_access_index));

enum { FROM_CLIENT = 0, TO_CLIENT = 1, END = 2 };

// A thread within SSL_read or SSL_write.
struct call {
    u64 ssl;
    u64 buffer;
    // Where the _ex functions store the number of bytes; 0: it is the result.
    u64 count_at;
    u32 kind;
    u32 unused;
};

// The header of a piece; crates/uprobes/src/piece.rs reads it.
struct head {
    u64 at_ns;
    u64 stream;
    u64 offset;
    u32 bytes;
    u8 kind;
    u8 family;
    // In network byte order.
    u16 client_port;
    u16 server_port;
    u16 unused[3];
    u8 client[16];
    u8 server[16];
};

// The connection of an SSL object.
struct stream {
    u64 offset[2];
    // Its constant parts.
    struct head head;
    // It is one to a port of the servers.
    u64 is_wanted;
};

// Pieces that the ring had no space for; crates/uprobes/src/counters.rs reads it.
struct counters {
    u64 lost_pieces;
    u64 lost_bytes;
    // Of these, the ones that were not in memory, so that they could not be read.
    u64 absent_pieces;
    // Connections that found no space in their table.
    u64 lost_streams;
};

struct {
    FIELD(type, MAP_RINGBUF);
    FIELD(max_entries, 1 << 26);
} RING SEC(".maps");

struct {
    FIELD(type, MAP_HASH);
    FIELD(max_entries, 1 << 16);
    u64(*key);
    struct call(*value);
} CALLS SEC(".maps");

struct {
    FIELD(type, MAP_HASH);
    FIELD(max_entries, 1 << 16);
    u64(*key);
    struct stream(*value);
} STREAMS SEC(".maps");

// The ports of the servers, in host byte order.
struct {
    FIELD(type, MAP_HASH);
    FIELD(max_entries, 256);
    u16(*key);
    u8(*value);
} PORTS SEC(".maps");

struct {
    FIELD(type, MAP_ARRAY);
    FIELD(max_entries, 1);
    FIELD(map_flags, MMAPABLE);
    u32(*key);
    struct counters(*value);
} COUNTERS SEC(".maps");

#define PIECE_BYTES 16384
// A single call writes at most so much; what is beyond is missing.
#define PIECES_MAX 4096

INLINE void count_lost(u64 bytes, int is_absent) {
    u32 zero = 0;
    struct counters* counters = lookup(&COUNTERS, &zero);
    if (counters) {
        __sync_fetch_and_add(&counters->lost_pieces, 1);
        __sync_fetch_and_add(&counters->lost_bytes, bytes);
        if (is_absent) {
            __sync_fetch_and_add(&counters->absent_pieces, 1);
        }
    }
}

// Puts a piece of at most `room` bytes into the ring.
INLINE void put(const struct head* head, u64 from, const u32 room) {
    struct head* slot = reserve(&RING, sizeof(*head) + room, 0);
    if (!slot) {
        count_lost(head->bytes, 0);
        return;
    }
    *slot = *head;
    u32 bytes = head->bytes;
    // The verifier must see the limit on the register that it passes on.
    asm volatile("" : "+r"(bytes));
    if (bytes > room || (bytes > 0 && read_user(slot + 1, bytes, (void*)from))) {
        discard(slot, NO_WAKEUP);
        count_lost(head->bytes, 1);
        return;
    }
    submit(slot, NO_WAKEUP);
}

struct copy {
    struct head head;
    u64 from;
    u64 left;
};

static long copy_piece(u32 index, struct copy* copy) {
    u32 bytes = copy->left > PIECE_BYTES ? PIECE_BYTES : copy->left;
    copy->head.bytes = bytes;
    if (bytes <= 184) {
        put(&copy->head, copy->from, 184);
    } else if (bytes <= 952) {
        put(&copy->head, copy->from, 952);
    } else if (bytes <= 4024) {
        put(&copy->head, copy->from, 4024);
    } else {
        put(&copy->head, copy->from, PIECE_BYTES);
    }
    copy->head.offset += bytes;
    copy->from += bytes;
    copy->left -= bytes;
    return copy->left == 0;
}

INLINE int enter(struct registers* at, u32 kind, int is_ex) {
    u64 id = thread();
    struct call call = {.ssl = at->di, .buffer = at->si, .kind = kind};
    call.count_at = is_ex ? at->cx : 0;
    update(&CALLS, &id, &call, 0);
    return 0;
}

SEC("uprobe") int enter_read(struct registers* at) {
    return enter(at, FROM_CLIENT, 0);
}
SEC("uprobe") int enter_read_ex(struct registers* at) {
    return enter(at, FROM_CLIENT, 1);
}
SEC("uprobe") int enter_write(struct registers* at) {
    return enter(at, TO_CLIENT, 0);
}
SEC("uprobe") int enter_write_ex(struct registers* at) {
    return enter(at, TO_CLIENT, 1);
}

SEC("uretprobe") int leave(struct registers* at) {
    u64 id = thread();
    struct call* found = lookup(&CALLS, &id);
    if (!found) {
        return 0;
    }
    struct call call = *found;
    forget(&CALLS, &id);
    int result = (int)at->ax;
    if (result <= 0) {
        return 0;
    }
    u64 bytes = result;
    if (call.count_at && read_user(&bytes, sizeof(bytes), (void*)call.count_at)) {
        return 0;
    }
    struct stream* stream = lookup(&STREAMS, &call.ssl);
    if (!stream || !stream->is_wanted || bytes == 0) {
        return 0;
    }
    u32 kind = call.kind & 1;
    struct copy copy = {.head = stream->head, .from = call.buffer, .left = bytes};
    copy.head.at_ns = now_ns();
    copy.head.kind = kind;
    copy.head.offset = stream->offset[kind];
    stream->offset[kind] += bytes;
    repeat(PIECES_MAX, copy_piece, &copy, 0);
    if (copy.left) {
        count_lost(copy.left, 0);
    }
    return 0;
}

SEC("uprobe") int enter_free(struct registers* at) {
    u64 ssl = at->di;
    struct stream* stream = lookup(&STREAMS, &ssl);
    if (!stream) {
        return 0;
    }
    if (stream->is_wanted) {
        struct head head = stream->head;
        head.at_ns = now_ns();
        head.kind = END;
        put(&head, 0, 184);
    }
    forget(&STREAMS, &ssl);
    return 0;
}

// A thread has received bytes from a TCP socket.
SEC("raw_tp") int receive(u64* arguments) {
    u64 id = thread();
    struct call* call = lookup(&CALLS, &id);
    if (!call) {
        return 0;
    }
    u64 ssl = call->ssl;
    if (lookup(&STREAMS, &ssl)) {
        return 0;
    }
    struct sock_common* sock = (struct sock_common*)arguments[0];
    struct stream stream = {};
    u16 family = 0, port = 0;
    read_kernel(&family, sizeof(family), &sock->skc_family);
    read_kernel(&port, sizeof(port), &sock->skc_num);
    stream.is_wanted = lookup(&PORTS, &port) != 0;
    struct head* head = &stream.head;
    head->stream = now_ns();
    head->family = family;
    head->server_port = __builtin_bswap16(port);
    read_kernel(&head->client_port, sizeof(u16), &sock->skc_dport);
    if (family == 2) {
        read_kernel(head->client, 4, &sock->skc_daddr);
        read_kernel(head->server, 4, &sock->skc_rcv_saddr);
    } else {
        read_kernel(head->client, 16, &sock->skc_v6_daddr);
        read_kernel(head->server, 16, &sock->skc_v6_rcv_saddr);
    }
    if (update(&STREAMS, &ssl, &stream, NO_EXIST)) {
        u32 zero = 0;
        struct counters* counters = lookup(&COUNTERS, &zero);
        if (counters) {
            __sync_fetch_and_add(&counters->lost_streams, 1);
        }
    }
    return 0;
}

// The kernel lends these helpers only to programs that are under the GPL, too.
SEC("license") const char LICENSE[] = "Dual MIT/GPL";
