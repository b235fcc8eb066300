/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket.h: sockets for kernels: streams and datagrams.
 *
 * A kernel opens a connection, sends, receives, accepts and closes, as a CPU program does with sockets. Over
 * TCP, UDP and UNIX sockets the peer is any program. Over RDMA the peer is another kernel, or any program
 * that uses rsockets: librdmacm's calls, or an ordinary sockets program under its preload library. No peer
 * can tell that a kernel answers.
 *
 * On the host:
 *
 *     gw_sockets_create(dev, &attr, &set);
 *     … net = gw_sockets_net(set) goes to the kernel …
 *
 * In the kernel:
 *
 *     s = gw_sock_open(net, AF_INET, SOCK_STREAM, 0, d);
 *     err = gw_sock_connect(net, s, addr, len, d);
 *
 *     n = gw_sock_send(net, s, bytes, n, 0, d);
 *     n = gw_sock_recv(net, s, bytes, n, 0, d);
 *     err = gw_sock_close(net, s, d);
 *
 * How it works. gw_sockets_create makes all sockets of a set: queue pairs, and buffers in one piece of memory
 * under one registration. That memory is the GPU's, or host memory that the GPU maps. Over RDMA data moves
 * between the kernel and the NIC alone; in posting mode direct no CPU instruction is spent on it. A helper
 * thread on the CPU opens, binds, connects, accepts and closes, through rdma_cm or the host's own calls. A
 * kernel asks it through a few slots in host memory. The helper never makes a kernel wait for a peer: it
 * writes the socket's state, and the kernel polls that. Over TCP, UDP and UNIX sockets the helper is the
 * proxy too: it moves bytes between the host's sockets and rings in mapped host memory, by io_uring. It
 * sleeps while there is nothing to do. Kernels on a GPU cannot wake a thread, so for their sets it looks at
 * the slots, once in a millisecond when nothing happens.
 *
 * The peers of a set learn its registration's key and could write into each other's buffers. As with
 * channels, make one set for each group of peers that trust each other.
 *
 * Forms. Each call has three. The plain name is the block's: every thread of the block calls it. Every thread
 * of one warp calls the _warp form, and one thread calls the _thread form (group.h). All threads of the group
 * pass the same arguments and get the same result. Any number of groups may use one socket: senders take
 * turns, and so do receivers. CPU threads of the process may call the _thread forms when the set was made for
 * CPU threads.
 *
 * Results are POSIX': a count may be smaller than asked for, 0 is the end of the stream, and errors are
 * negative errno values. Sizes are bytes.
 *
 * Deadlines are nanoseconds on the executor's clock: gw_clock_ns() + what the call may take. A call that
 * reaches its deadline returns -ETIMEDOUT, or what it has moved so far. With deadline 0 it does not wait for
 * the peer: -EAGAIN (-EINPROGRESS from connect). The calls that ask the helper (open, bind, listen, accept,
 * connect, close) always wait for its answer, for GW_SOCK_HELPER_NS at most: -ETIMEDOUT then.
 *
 * Memory order. What is sent holds all that the group's threads wrote before they send. When a receiving call
 * has returned, what came is visible to all threads of the group.
 *
 * Errors of every call:
 *
 *   `-EBADF`   no such open socket, or another thread closes it during the call.
 *   `-EINVAL`  an argument makes no sense.
 *
 * Errors of calls on a connection:
 *
 *   `-ENOTCONN`    not connected.
 *   `-ECONNRESET`  the peer, the network or the NIC failed.
 *   `-EPROTO`      the peer broke the protocol.
 *   `-ETIMEDOUT`   the peer was silent for too long, or the deadline passed.
 *   `-EPIPE`       sending after this side's shutdown, or after the peer has closed.
 *   `-ENETDOWN`    the proxy has failed.
 *
 * Bytes that arrived before a failure are received first.
 *
 * docs/sockets.md lists what POSIX has and this does not, and what a call returns for it.
 */
#ifndef GPUWIRE_SOCKET_H
#define GPUWIRE_SOCKET_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <gpuwire/detail/socket/flow.h>
#include <gpuwire/rsocket.h>
#include <gpuwire/rsocket_datagram.h>

/* Of the host, in <gpuwire/verbs.h>, which kernels need not read. */
struct gw_device;
struct gw_mr;

#define GW_SOCK_VERSION   4
#define GW_SOCK_HELPER_NS 5000000000u
#define GW_SOCK_IOV_MAX   1024 /* stretches that readv and writev take, as Linux' */

struct gw_net; /* a set of sockets, as kernels see it; opaque */

/*
 * RDMA or TCP carries a stream of the Internet. GW_SO_RDMA is an option of each socket (level GW_SOL_SOCKET,
 * an int), set before the socket is bound or connected; gw_sockets_attr.rdma gives it to new sockets. A set
 * made for GW_RDMA_ONLY has no proxy: all its sockets use RDMA. In every other set datagrams go by UDP,
 * because a plain UDP program could not read what rsockets send to a peer for the first time.
 */
#define GW_SOL_SOCKET  0x6777
#define GW_SO_RDMA     1
#define GW_SO_NONBLOCK 2 /* an int: no call on the socket waits, as with O_NONBLOCK of fcntl(2) */

enum gw_sock_rdma {
    GW_RDMA_OFF = 0,  /* the host's TCP */
    GW_RDMA_ONLY = 1, /* RDMA */
    /* RDMA when the peer speaks it, else TCP. Such a socket listens for both at one port; it connects by RDMA
     * first, for 2 s at most. */
    GW_RDMA_TRY = 2,
};

/* ---- host --------------------------------------------------------------------------------------------- */

#ifdef __cplusplus
extern "C" {
#endif

struct gw_sockets;

/* Zero fields take the value in parentheses. Sizes are rounded up to a power of two. */
struct gw_sockets_attr {
    uint32_t count; /* sockets, listening ones too; at least 1, up to 65536 */
    /* Bytes of each socket's buffers, 4 KiB … 256 MiB (128 KiB). Sockets may use less: SO_RCVBUF, SO_SNDBUF.
     */
    uint32_t rbuf, wbuf;
    uint32_t writes; /* data writes under way, in each direction, 16 … 4096 (64) */
    uint32_t maps;   /* entries for direct access, of a socket and of its peer: 0 … 128 */
    /* For a set for GW_RDMA_ONLY on RoCE. The number of sockets that may be SOCK_DGRAM at a time (0: none).
     * They speak rsocket's datagrams, and rbuf and wbuf are their room, too. */
    uint32_t datagrams;
    uint32_t mem;       /* enum gw_mem_kind; 0: the executor's own memory if the NIC reaches it, else host */
    uint32_t post_mode; /* enum gw_post_mode */
    uint32_t rdma;      /* enum gw_sock_rdma, of new sockets of the Internet: GW_SO_RDMA (GW_RDMA_OFF) */
    uint32_t busy;      /* 1: the helper never sleeps: faster, at the price of a processor */
    struct gw_exec *exec; /* without a device: where the kernels run */
    /* Calls that wait, or find nothing, ask the peer's NIC so often whether it is there (1 s); UINT64_MAX:
     * never. Sockets may choose their own: SO_KEEPALIVE, TCP_KEEPIDLE. */
    uint64_t keepalive_ns;
};

/*
 * Makes a set on a device and starts its helper. Without a device (NULL) its sockets are the host's, and
 * GW_SO_RDMA stays off. It allocates and registers memory: call it before a loop starts. 0, or
 *
 *   `-EINVAL`      an attribute is out of range.
 *   `-ENODEV`      this machine has no rdma_cm.
 *   `-EOPNOTSUPP`  the NIC does not reach memory of that kind, or the host's sockets have no io_uring.
 *   -ENOMEM.
 */
GW_API int gw_sockets_create(struct gw_device *dev, const struct gw_sockets_attr *attr,
                             struct gw_sockets **out);

/* Ends the helper and closes what is open; the peers are not told. Only when no kernel uses the set. NULL is
 * allowed. Returns 0. */
GW_API int gw_sockets_destroy(struct gw_sockets *set);

/* Registers memory that gw_sock_iomap may offer to peers of the set for direct access. Arguments, results and
 * rules are those of gw_mr_register: before a loop starts. Free it (gw_mr_free) before the set is destroyed,
 * and not while a peer may write. */
GW_API int gw_sockets_map(struct gw_sockets *set, void *addr, size_t length, struct gw_mr **out);

/* The set as the executor addresses it: pass it to kernels. */
GW_API struct gw_net *gw_sockets_net(const struct gw_sockets *set);

/* How many sockets are open; a closed one counts until the helper has taken it back. For tests and tools. */
GW_API uint32_t gw_sockets_open(struct gw_sockets *set);

#ifdef __cplusplus
}
#endif

/* ---- kernels: opening and closing --------------------------------------------------------------------- */

/*
 * A new socket, as socket(2): its number, from 0. `domain`: AF_INET, AF_INET6 or AF_UNIX. `type`: SOCK_STREAM
 * or SOCK_DGRAM. `protocol`: 0, IPPROTO_TCP or IPPROTO_UDP.
 *
 *   `-EMFILE`           all sockets of the set are open, or the process has no more descriptors.
 *   `-EAFNOSUPPORT`     another domain. In a set for RDMA alone: AF_UNIX, or datagrams of another family than
 *                       the device's address.
 *   `-ESOCKTNOSUPPORT`  datagrams, in a set for RDMA alone that was made without them.
 *   `-EPROTONOSUPPORT`  another protocol.
 *   `-ENETDOWN`         the proxy has failed; of datagrams over RDMA: the device was removed.
 */
GW_DEV int gw_sock_open(struct gw_net *net, int domain, int type, int protocol, uint64_t deadline_ns);
GW_DEV int gw_sock_open_warp(struct gw_net *net, int domain, int type, int protocol, uint64_t deadline_ns);
GW_SLOW_FN int gw_sock_open_thread(struct gw_net *net, int domain, int type, int protocol,
                                   uint64_t deadline_ns);

/*
 * As bind(2); port 0: any free one. Ports are the host's own, or over RDMA rdma_cm's (RDMA_PS_TCP): other
 * numbers. -EADDRINUSE, -EADDRNOTAVAIL, -EAFNOSUPPORT; -EINVAL: bound already.
 */
GW_DEV int gw_sock_bind(struct gw_net *net, int s, const struct sockaddr *addr, socklen_t len,
                        uint64_t deadline_ns);
GW_DEV int gw_sock_bind_warp(struct gw_net *net, int s, const struct sockaddr *addr, socklen_t len,
                             uint64_t deadline_ns);
GW_SLOW_FN int gw_sock_bind_thread(struct gw_net *net, int s, const struct sockaddr *addr, socklen_t len,
                                   uint64_t deadline_ns);

/* As listen(2); an unbound socket gets a port. Up to backlog connections are set up before they are accepted;
 * over RDMA each of them takes one of the set's sockets. */
GW_DEV int gw_sock_listen(struct gw_net *net, int s, int backlog, uint64_t deadline_ns);
GW_DEV int gw_sock_listen_warp(struct gw_net *net, int s, int backlog, uint64_t deadline_ns);
GW_SLOW_FN int gw_sock_listen_thread(struct gw_net *net, int s, int backlog, uint64_t deadline_ns);

/*
 * As accept(2): returns the number of a connected socket. The peer's address goes to *addr, which may be
 * NULL; *len is its room before and its size after. It returns -EINVAL if the socket does not listen, and
 * -EMFILE if no socket is free. Connections that wait to be accepted go on waiting.
 */
GW_DEV int gw_sock_accept(struct gw_net *net, int s, struct sockaddr *addr, socklen_t *len,
                          uint64_t deadline_ns);
GW_DEV int gw_sock_accept_warp(struct gw_net *net, int s, struct sockaddr *addr, socklen_t *len,
                               uint64_t deadline_ns);
GW_SLOW_FN int gw_sock_accept_thread(struct gw_net *net, int s, struct sockaddr *addr, socklen_t *len,
                                     uint64_t deadline_ns);

/*
 * As connect(2). With deadline 0 it begins and returns -EINPROGRESS: poll for POLLOUT, then call it again for
 * the result, which is 0 once. For datagrams it sets the peer, at once; a later call may set another one.
 *
 *   `-EISCONN`                       connected already.
 *   `-EALREADY`                      deadline 0, and it has begun before.
 *   `-ECONNREFUSED`                  the peer does not listen there.
 *   `-ENETUNREACH`, `-EHOSTUNREACH`  no way there.
 *   `-ETIMEDOUT`                     it goes on, as after -EINPROGRESS.
 *   `-ECONNABORTED`                  it has failed, and an earlier call said so: close the socket.
 *   `-EOPNOTSUPP`                    the socket listens.
 */
GW_DEV int gw_sock_connect(struct gw_net *net, int s, const struct sockaddr *addr, socklen_t len,
                           uint64_t deadline_ns);
GW_DEV int gw_sock_connect_warp(struct gw_net *net, int s, const struct sockaddr *addr, socklen_t len,
                                uint64_t deadline_ns);
GW_SLOW_FN int gw_sock_connect_thread(struct gw_net *net, int s, const struct sockaddr *addr, socklen_t len,
                                      uint64_t deadline_ns);

/* As shutdown(2): SHUT_RD, SHUT_WR, SHUT_RDWR. The peer reads what was sent, and then the end of the stream.
 */
GW_DEV int gw_sock_shutdown(struct gw_net *net, int s, int how, uint64_t deadline_ns);
GW_DEV int gw_sock_shutdown_warp(struct gw_net *net, int s, int how, uint64_t deadline_ns);
GW_SLOW_FN int gw_sock_shutdown_thread(struct gw_net *net, int s, int how, uint64_t deadline_ns);

/*
 * Closes. It waits until the peer's NIC, or the host's socket, has everything that was sent. Whatever it
 * returns, the number is free again, but for two errors:
 *
 *   `-EBADF`  not open; of several that close a socket one does, and the others get this.
 *   `-EBUSY`  a group keeps what it has borrowed or reserved: the socket stays open.
 *
 * -ETIMEDOUT: at the deadline something was still missing there, and is lost. Others that wait on the socket
 * get -EBADF.
 */
GW_DEV int gw_sock_close(struct gw_net *net, int s, uint64_t deadline_ns);
GW_DEV int gw_sock_close_warp(struct gw_net *net, int s, uint64_t deadline_ns);
GW_SLOW_FN int gw_sock_close_thread(struct gw_net *net, int s, uint64_t deadline_ns);

/* As getsockname(2) (name) and getpeername(2) (peer). They never wait. */
GW_DEV int gw_sock_name(struct gw_net *net, int s, struct sockaddr *addr, socklen_t *len);
GW_DEV int gw_sock_name_warp(struct gw_net *net, int s, struct sockaddr *addr, socklen_t *len);
GW_SLOW_FN int gw_sock_name_thread(struct gw_net *net, int s, struct sockaddr *addr, socklen_t *len);
GW_DEV int gw_sock_peer(struct gw_net *net, int s, struct sockaddr *addr, socklen_t *len);
GW_DEV int gw_sock_peer_warp(struct gw_net *net, int s, struct sockaddr *addr, socklen_t *len);
GW_SLOW_FN int gw_sock_peer_thread(struct gw_net *net, int s, struct sockaddr *addr, socklen_t *len);

/*
 * As getsockopt(2) and setsockopt(2). `getsockopt` never waits; setsockopt asks the helper, and waits for
 * GW_SOCK_HELPER_NS at most. Sockets that a listening socket accepts inherit what is set on it at that time.
 *
 * SOL_SOCKET:
 *
 *   `SO_RCVBUF`, `SO_SNDBUF`       Bytes of its buffers, rounded up to a power of two. They have 4 KiB at
 *                                  least, and the set's rbuf and wbuf at most. Fails with -EISCONN once it
 *                                  connects.
 *   `SO_REUSEADDR`                 The option of rdma_cm: before bind.
 *   `SO_REUSEPORT`                 TCP and UDP: before bind, of each of several sockets at one port. The host
 *                                  spreads connections over them. So several sets, each with a helper of its
 *                                  own, serve one port. Fails with -EOPNOTSUPP for RDMA.
 *   `SO_KEEPALIVE`                 Does a call that waits, or finds nothing, ask the peer's NIC whether it is
 *                                  there?
 *   `SO_LINGER`                    How long close waits at most, if its deadline is later. With 0 seconds
 *                                  close drops what is under way, and the peer gets -ECONNRESET.
 *   `SO_RCVTIMEO`, `SO_SNDTIMEO`   A struct timeval; 0: none. How long a call that receives or accepts (that
 *                                  sends or connects) waits at most, if its deadline is later: -ETIMEDOUT.
 *                                  Rounded up to milliseconds. Fails with -EDOM if it is not a time. The
 *                                  calls close, shutdown, commit and poll go by their deadline alone.
 *   `SO_ERROR`                     Why connecting, or the stream, has failed. It is told once.
 *   `SO_TYPE`, `SO_DOMAIN`, `SO_PROTOCOL`, `SO_ACCEPTCONN`
 *
 * GW_SOL_SOCKET:
 *
 *   `GW_SO_RDMA`                   See above. Fails with -EISCONN once it is bound or connects. Fails with
 *                                  -EOPNOTSUPP in a set without a device or for RDMA alone, and for a UNIX
 *                                  socket. The same for datagrams: the set says what carries those.
 *   `GW_SO_NONBLOCK`               The same calls act as with deadline 0. Accepted sockets do not inherit it.
 *
 * IPPROTO_TCP:
 *
 *   `TCP_NODELAY`                  Kept; nothing is ever delayed.
 *   `TCP_KEEPIDLE`                 Seconds between questions, 1 … 32767.
 *   `TCP_KEEPINTVL`, `TCP_KEEPCNT` Seconds, 1 … 32767, and how many, 1 … 127. Their product is how long a
 *                                  question may go unanswered (-ETIMEDOUT), if the NIC does not give up
 *                                  before (-ECONNRESET).
 *
 * -ENOPROTOOPT: no such option, or not one that can be set. -EINVAL: the value, or its length.
 */
GW_DEV int gw_sock_getsockopt(struct gw_net *net, int s, int level, int name, void *value, socklen_t *len);
GW_DEV int gw_sock_getsockopt_warp(struct gw_net *net, int s, int level, int name, void *value,
                                   socklen_t *len);
GW_SLOW_FN int gw_sock_getsockopt_thread(struct gw_net *net, int s, int level, int name, void *value,
                                         socklen_t *len);
GW_DEV int gw_sock_setsockopt(struct gw_net *net, int s, int level, int name, const void *value,
                              socklen_t len);
GW_DEV int gw_sock_setsockopt_warp(struct gw_net *net, int s, int level, int name, const void *value,
                                   socklen_t len);
GW_SLOW_FN int gw_sock_setsockopt_thread(struct gw_net *net, int s, int level, int name, const void *value,
                                         socklen_t len);

/* As poll(2), on sockets of this set; negative fds are skipped. Ask for POLLIN and POLLOUT; POLLERR, POLLHUP
 * and POLLNVAL are told besides. Returns how many entries have something; 0 at the deadline. */
GW_DEV int gw_sock_poll(struct gw_net *net, struct pollfd *fds, uint32_t n, uint64_t deadline_ns);
GW_DEV int gw_sock_poll_warp(struct gw_net *net, struct pollfd *fds, uint32_t n, uint64_t deadline_ns);
GW_SLOW_FN int gw_sock_poll_thread(struct gw_net *net, struct pollfd *fds, uint32_t n, uint64_t deadline_ns);

/* ---- kernels: data ------------------------------------------------------------------------------------ */

/*
 * As send(2) and recv(2): bytes moved, or an error if none was. `send` moves all n bytes, unless the deadline
 * passes; when it returns, the bytes may be overwritten. `recv` moves what is there; it waits for the first
 * byte only. `flags`: MSG_DONTWAIT (as deadline 0), MSG_NOSIGNAL (there are no signals); receiving also
 * MSG_PEEK and MSG_WAITALL (both together: what is there). -EOPNOTSUPP: another flag.
 */
GW_DEV int64_t gw_sock_send(struct gw_net *net, int s, const void *bytes, uint64_t n, int flags,
                            uint64_t deadline_ns);
GW_DEV int64_t gw_sock_send_warp(struct gw_net *net, int s, const void *bytes, uint64_t n, int flags,
                                 uint64_t deadline_ns);
GW_DEV int64_t gw_sock_send_thread(struct gw_net *net, int s, const void *bytes, uint64_t n, int flags,
                                   uint64_t deadline_ns);
GW_DEV int64_t gw_sock_recv(struct gw_net *net, int s, void *bytes, uint64_t n, int flags,
                            uint64_t deadline_ns);
GW_DEV int64_t gw_sock_recv_warp(struct gw_net *net, int s, void *bytes, uint64_t n, int flags,
                                 uint64_t deadline_ns);
GW_DEV int64_t gw_sock_recv_thread(struct gw_net *net, int s, void *bytes, uint64_t n, int flags,
                                   uint64_t deadline_ns);

/*
 * As sendto(2) and recvfrom(2), with the flags of send and recv.
 *
 * On datagrams (which send and recv take, too) each call moves one. Bytes that find no room are lost; with
 * MSG_TRUNC the result is the datagram's whole length. The longest to send has 65507 bytes, or half of the
 * set's wbuf less 128. A datagram that comes and is longer than half of rbuf less 128 is cut. Over RDMA the
 * longest has 2040 bytes (IPv6: 2024), or the port's MTU less 8 (24). -EMSGSIZE: longer. -EDESTADDRREQ,
 * -ENOTCONN: no address, and not connected. A later call returns an error of the network (-ECONNREFUSED and
 * others) once. `borrow` and reserve: -EOPNOTSUPP.
 *
 * On a stream, as with Linux' TCP, sendto ignores the address, and recvfrom tells none: *len becomes 0.
 * -EINVAL: an address longer than any; from without len.
 *
 * Eight arguments, as sendto(2) has them, a set and a deadline.
 */
GW_DEV int64_t gw_sock_sendto(struct gw_net *net, int s, const void *bytes, uint64_t n, int flags,
                              const struct sockaddr *to, socklen_t len, uint64_t deadline_ns);
GW_DEV int64_t gw_sock_sendto_warp(struct gw_net *net, int s, const void *bytes, uint64_t n, int flags,
                                   const struct sockaddr *to, socklen_t len, uint64_t deadline_ns);
GW_DEV int64_t gw_sock_sendto_thread(struct gw_net *net, int s, const void *bytes, uint64_t n, int flags,
                                     const struct sockaddr *to, socklen_t len, uint64_t deadline_ns);
GW_DEV int64_t gw_sock_recvfrom(struct gw_net *net, int s, void *bytes, uint64_t n, int flags,
                                struct sockaddr *from, socklen_t *len, uint64_t deadline_ns);
GW_DEV int64_t gw_sock_recvfrom_warp(struct gw_net *net, int s, void *bytes, uint64_t n, int flags,
                                     struct sockaddr *from, socklen_t *len, uint64_t deadline_ns);
GW_DEV int64_t gw_sock_recvfrom_thread(struct gw_net *net, int s, void *bytes, uint64_t n, int flags,
                                       struct sockaddr *from, socklen_t *len, uint64_t deadline_ns);

/*
 * As writev(2) and readv(2): up to GW_SOCK_IOV_MAX stretches of memory in a row, as one send or recv without
 * flags. If they have no bytes at all the call returns 0 at once. Every thread of the group reads the n
 * entries of iov. -EINVAL: n, or more bytes than an int64_t counts.
 */
GW_DEV int64_t gw_sock_writev(struct gw_net *net, int s, const struct iovec *iov, int n,
                              uint64_t deadline_ns);
GW_DEV int64_t gw_sock_writev_warp(struct gw_net *net, int s, const struct iovec *iov, int n,
                                   uint64_t deadline_ns);
GW_DEV int64_t gw_sock_writev_thread(struct gw_net *net, int s, const struct iovec *iov, int n,
                                     uint64_t deadline_ns);
GW_DEV int64_t gw_sock_readv(struct gw_net *net, int s, const struct iovec *iov, int n, uint64_t deadline_ns);
GW_DEV int64_t gw_sock_readv_warp(struct gw_net *net, int s, const struct iovec *iov, int n,
                                  uint64_t deadline_ns);
GW_DEV int64_t gw_sock_readv_thread(struct gw_net *net, int s, const struct iovec *iov, int n,
                                    uint64_t deadline_ns);

/*
 * Receiving without a copy. `borrow` sets *bytes to the next bytes and returns how many lie there in a row:
 * at least 1; 0: the end of the stream. After each borrow that returned more than 0 the same group calls
 * give_back. It returns the first n bytes to the peer (all, some or none); the others come again. Between the
 * two no other group may receive, and no thread may close the socket. -EINVAL from give_back: n is more than
 * there are, and nothing is given back.
 */
GW_DEV int64_t gw_sock_borrow(struct gw_net *net, int s, const void **bytes, uint64_t deadline_ns);
GW_DEV int64_t gw_sock_borrow_warp(struct gw_net *net, int s, const void **bytes, uint64_t deadline_ns);
GW_DEV int64_t gw_sock_borrow_thread(struct gw_net *net, int s, const void **bytes, uint64_t deadline_ns);
GW_DEV int gw_sock_give_back(struct gw_net *net, int s, uint64_t n);
GW_DEV int gw_sock_give_back_warp(struct gw_net *net, int s, uint64_t n);
GW_DEV int gw_sock_give_back_thread(struct gw_net *net, int s, uint64_t n);

/*
 * Sending without a copy. `reserve` sets *bytes to room for the next bytes and returns how much there is in a
 * row: at least 1; or an error. Any threads of the group fill as much of it as they like, from the beginning.
 * After each reserve that returned more than 0 the same group calls commit, which sends the first n bytes
 * (all, some or none). `commit` waits until its own deadline, only for room in the send queue. Whatever it
 * returns, the reservation has ended: 0, or why nothing was sent; -EINVAL: more than there was room for.
 * Between the two no other group may send, and no thread may close the socket.
 */
GW_DEV int64_t gw_sock_reserve(struct gw_net *net, int s, void **bytes, uint64_t deadline_ns);
GW_DEV int64_t gw_sock_reserve_warp(struct gw_net *net, int s, void **bytes, uint64_t deadline_ns);
GW_DEV int64_t gw_sock_reserve_thread(struct gw_net *net, int s, void **bytes, uint64_t deadline_ns);
GW_DEV int gw_sock_commit(struct gw_net *net, int s, uint64_t n, uint64_t deadline_ns);
GW_DEV int gw_sock_commit_warp(struct gw_net *net, int s, uint64_t n, uint64_t deadline_ns);
GW_DEV int gw_sock_commit_thread(struct gw_net *net, int s, uint64_t n, uint64_t deadline_ns);

/*
 * Direct access to the other side's memory, which its program does not notice; as librdmacm's riomap,
 * riounmap and riowrite. Only for a stream over RDMA: -EOPNOTSUPP on others.
 *
 * `iomap` offers the peer n bytes of ours, at the offsets from `offset` on. `addr` and rkey name memory that
 * gw_sockets_map has registered. `iounmap` takes the offer back; what the peer wrote before it knew still
 * arrives. Both wait for the peer's credit, as send does, and take one of its entries and credits.
 * `librdmacm` never gives these credits back (it has a few hundred); gpuwire does. They return -ENOMEM if the
 * peer offers no entry, or none is free. They return -EINVAL for no bytes or too many, and iounmap also if
 * nothing of that kind was offered.
 *
 * iowrite writes n bytes where the peer has offered memory, and returns how many it wrote: fewer where that
 * memory ends. When it returns, the bytes may be overwritten here. They arrive before anything that is sent
 * afterwards, but in no promised order among themselves (see verbs.h). `flags`: MSG_DONTWAIT, MSG_NOSIGNAL.
 * -ENXIO: the peer offers nothing at that offset.
 *
 * Seven arguments, as riomap and riowrite have them, a set and a deadline.
 */
GW_DEV int gw_sock_iomap(struct gw_net *net, int s, uint64_t addr, uint32_t rkey, uint64_t n, uint64_t offset,
                         uint64_t deadline_ns);
GW_DEV int gw_sock_iomap_warp(struct gw_net *net, int s, uint64_t addr, uint32_t rkey, uint64_t n,
                              uint64_t offset, uint64_t deadline_ns);
GW_SLOW_FN int gw_sock_iomap_thread(struct gw_net *net, int s, uint64_t addr, uint32_t rkey, uint64_t n,
                                    uint64_t offset, uint64_t deadline_ns);
GW_DEV int gw_sock_iounmap(struct gw_net *net, int s, uint64_t addr, uint64_t n, uint64_t deadline_ns);
GW_DEV int gw_sock_iounmap_warp(struct gw_net *net, int s, uint64_t addr, uint64_t n, uint64_t deadline_ns);
GW_SLOW_FN int gw_sock_iounmap_thread(struct gw_net *net, int s, uint64_t addr, uint64_t n,
                                      uint64_t deadline_ns);
GW_DEV int64_t gw_sock_iowrite(struct gw_net *net, int s, const void *bytes, uint64_t n, uint64_t offset,
                               int flags, uint64_t deadline_ns);
GW_DEV int64_t gw_sock_iowrite_warp(struct gw_net *net, int s, const void *bytes, uint64_t n, uint64_t offset,
                                    int flags, uint64_t deadline_ns);
GW_DEV int64_t gw_sock_iowrite_thread(struct gw_net *net, int s, const void *bytes, uint64_t n,
                                      uint64_t offset, int flags, uint64_t deadline_ns);

#include <gpuwire/detail/socket/state.h>
#include <gpuwire/detail/socket/stream.h>
#include <gpuwire/detail/socket/stream_send.h>
#include <gpuwire/detail/socket/stream_recv.h>
#include <gpuwire/detail/socket/host_stream.h>
#include <gpuwire/detail/socket/request.h>
#include <gpuwire/detail/socket/datagram.h>
#include <gpuwire/detail/socket/kind.h>
#include <gpuwire/detail/socket/setup.h>
#include <gpuwire/detail/socket/options.h>
#include <gpuwire/detail/socket/iovec.h>
#include <gpuwire/detail/socket/host_stream_group.h>
#include <gpuwire/detail/socket/stream_group.h>
#include <gpuwire/detail/socket/host_datagram.h>
#include <gpuwire/detail/socket/datagram_group.h>
#include <gpuwire/detail/socket/calls.h>

#endif
