/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket.h: stream sockets for kernels.
 *
 * A kernel opens a connection, sends, receives, accepts and closes, as a CPU program does with sockets. Over TCP and
 * UNIX sockets the peer is any program, over RDMA another kernel or any program that uses rsockets: those of
 * librdmacm, or an ordinary sockets program under its preload library. It cannot tell what it talks to.
 *
 *   host                                                 kernel
 *     gw_sockets_create(dev, &attr, &set);                 s = gw_sock_open(net, AF_INET, SOCK_STREAM, 0, d);
 *     … net = gw_sockets_net(set) goes to the kernel …     err = gw_sock_connect(net, s, addr, len, d);
 *                                                          n = gw_sock_send(net, s, bytes, n, 0, d);
 *                                                          n = gw_sock_recv(net, s, bytes, n, 0, d);
 *                                                          err = gw_sock_close(net, s, d);
 *
 * How. All sockets of a set are made when the set is: queue pairs, and buffers in one piece of memory under
 * one registration, in GPU memory or in mapped host memory. Over RDMA data moves between the kernel and the NIC alone:
 * in posting mode direct no CPU instruction is spent on it. Sockets are opened, bound, connected, accepted
 * and closed by a helper thread on the CPU, by rdma_cm or the host's own calls, which a kernel asks through a few
 * slots in host memory and which never makes it wait for a peer: what takes a peer is told by the state of the
 * socket, and polled for. Over TCP and UNIX sockets the helper is the proxy, too: it moves bytes between the host's
 * sockets and rings in mapped host memory, by io_uring. It sleeps while there is nothing to do (for a set on a
 * GPU, whose kernels cannot wake a thread, it looks at the slots, once in a millisecond when nothing happens).
 *
 * The peers of a set are told its registration's key and could write into each other's buffers: as with
 * channels, make a set for each group of peers that must not.
 *
 * Results are POSIX': counts may be smaller than asked for, 0 is the end of the stream, errors are negative
 * errno values. Every call that can wait has a deadline, absolute on the executor's clock (gw_clock_ns() + what
 * it may take); it returns -ETIMEDOUT then, or what it has moved so far. With deadline 0 it does not wait for
 * the peer: -EAGAIN (-EINPROGRESS from connect). The calls that ask the helper (open, bind, listen, accept,
 * connect, close) always wait for its answer, for GW_SOCK_HELPER_NS at most: -ETIMEDOUT.
 *
 * Forms: the plain name is the block's, _warp and _thread as in group.h; every thread of the group must pass
 * the same arguments. Any number of groups may use a socket: those that send take turns, and those that
 * receive. CPU threads of the process may call the _thread forms when the set was made for CPU threads.
 *
 * Memory order: what the group's threads have written before it sends is in what is sent; when a call that receives has
 * returned, what has come is visible to all threads of the group. Sizes are bytes.
 *
 * Errors of every call: -EBADF: no such open socket, also when it is closed meanwhile; -EINVAL: a senseless
 * argument. Of those on a connection: -ENOTCONN; -ECONNRESET: the peer, the network or the NIC failed; -EPROTO:
 * the peer broke the protocol; -ETIMEDOUT: it was silent for too long (and: the deadline); -EPIPE: sending after this side's shutdown, or after the peer has closed; -ENETDOWN:
 * the proxy has failed. Bytes that arrived before a failure are received first.
 *
 * What POSIX has and this has not, and how it says so, is in docs/sockets.md.
 */
#ifndef GPUWIRE_SOCKET_H
#define GPUWIRE_SOCKET_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <gpuwire/flow_impl.h>
#include <gpuwire/rsocket.h>
#include <gpuwire/rsocket_dgram.h>
#include <gpuwire/verbs.h>

#define GW_SOCK_VERSION   3
#define GW_SOCK_HELPER_NS 5000000000u
#define GW_SOCK_IOV_MAX   1024 /* stretches that readv and writev take, as Linux' */

struct gw_net; /* a set of sockets, as kernels see it; opaque */

/*
 * What carries a stream of the Internet: an option of each socket (level GW_SOL_SOCKET, an int), before it is bound or
 * connected, and of the set, for new ones. A set made for GW_RDMA_ONLY has no proxy: all its sockets use RDMA. Elsewhere
 * datagrams go by UDP: what rsockets send to a peer for the first time, a plain UDP program could not read.
 */
#define GW_SOL_SOCKET  0x6777
#define GW_SO_RDMA     1
#define GW_SO_NONBLOCK 2 /* an int: no call of the socket's waits, as with O_NONBLOCK of fcntl(2) */

enum gw_sock_rdma {
    GW_RDMA_OFF = 0,  /* the host's TCP */
    GW_RDMA_ONLY = 1, /* RDMA */
    GW_RDMA_TRY =
        2, /* RDMA when the peer speaks it, else TCP: it listens for both at one port, and connects by RDMA
                         first, for 2 s at most */
};

/* ---- host --------------------------------------------------------------------------------------------- */

#ifdef __cplusplus
extern "C" {
#endif

struct gw_sockets;

/* Zero fields take the value in parentheses. Sizes are rounded up to a power of two. */
struct gw_sockets_attr {
    uint32_t count;      /* sockets, listening ones too; at least 1, up to 65536 */
    uint32_t rbuf, wbuf; /* bytes of each socket's buffers, 4 KiB … 256 MiB (128 KiB); sockets may use less:
                            SO_RCVBUF, SO_SNDBUF */
    uint32_t writes;     /* data writes under way, in each direction, 16 … 4096 (64) */
    uint32_t maps;       /* entries for direct access, of a socket and of its peer: 0 … 128 */
    uint32_t datagrams;  /* of a set for GW_RDMA_ONLY on RoCE: so many sockets at a time may be SOCK_DGRAM, which then
                            speak rsocket's datagrams; rbuf and wbuf are their room, too (0: none) */
    uint32_t mem;        /* enum gw_mem_kind; 0: the executor's own memory if the NIC reaches it, else host */
    uint32_t post_mode;  /* enum gw_post_mode */
    uint32_t rdma;       /* enum gw_sock_rdma, of new sockets of the Internet: GW_SO_RDMA (GW_RDMA_OFF) */
    uint32_t busy;       /* 1: the helper never sleeps: shorter ways at the price of a processor */
    struct gw_exec *exec; /* without a device: where the kernels run */
    uint64_t
        keepalive_ns; /* calls that wait, or find nothing, ask the peer's NIC so often whether it is there (1 s);
                              UINT64_MAX: never. Sockets may choose their own: SO_KEEPALIVE, TCP_KEEPIDLE */
};

/*
 * Makes a set on a device and starts its helper. Without a device (NULL) its sockets are the host's, and GW_SO_RDMA
 * stays off. -EINVAL; -ENODEV: no rdma_cm on this machine; -EOPNOTSUPP: the NIC does not reach memory of that
 * kind, or there is no io_uring for the host's sockets; -ENOMEM. It allocates and registers: before a loop starts.
 */
GW_API int gw_sockets_create(struct gw_device *dev, const struct gw_sockets_attr *attr,
                             struct gw_sockets **out);

/* Ends the helper and closes what is open, without a word to the peers. Only when no kernel uses the set. NULL
 * is allowed. Returns 0. */
GW_API int gw_sockets_destroy(struct gw_sockets *set);

/* Registers memory that peers of the set may be offered for direct access (gw_sock_iomap): as gw_mr_register, and as
 * that before a loop starts. Free it (gw_mr_free) before the set is destroyed, and not while a peer may write. */
GW_API int gw_sockets_map(struct gw_sockets *set, void *addr, size_t length, struct gw_mr **out);

/* As the executor addresses it: pass it to kernels. */
GW_API struct gw_net *gw_sockets_net(const struct gw_sockets *set);

/* How many sockets are open; a closed one counts until the helper has taken it back. For tests and tools. */
GW_API uint32_t gw_sockets_open(struct gw_sockets *set);

#ifdef __cplusplus
}
#endif

/* ---- kernels: opening and closing --------------------------------------------------------------------- */

/*
 * A new socket, as socket(2): its number, from 0. AF_INET, AF_INET6 or AF_UNIX; SOCK_STREAM or SOCK_DGRAM; protocol 0,
 * IPPROTO_TCP or IPPROTO_UDP. -EMFILE: all are open, or the process has no more descriptors; -EAFNOSUPPORT (AF_UNIX in a
 * set for RDMA alone, too; there, datagrams of another family than the device's address); -ESOCKTNOSUPPORT: datagrams in a
 * set for RDMA alone that was made without; -EPROTONOSUPPORT; -ENETDOWN: the proxy has failed, or of
 * datagrams over RDMA the device was removed.
 */
GW_SLOW_FN int gw_sock_open_thread(struct gw_net *net, int domain, int type, int protocol,
                                   uint64_t deadline_ns);

/* As bind(2); port 0: any free one. Ports are the host's own, or over RDMA rdma_cm's (RDMA_PS_TCP): other numbers.
 * -EADDRINUSE, -EADDRNOTAVAIL, -EAFNOSUPPORT; -EINVAL: bound already. */
GW_SLOW_FN int gw_sock_bind_thread(struct gw_net *net, int s, const struct sockaddr *addr, socklen_t len,
                                   uint64_t deadline_ns);

/* As listen(2); an unbound socket gets a port. Up to backlog connections are set up before they are accepted; over
 * RDMA each of them takes one of the set's sockets. */
GW_SLOW_FN int gw_sock_listen_thread(struct gw_net *net, int s, int backlog, uint64_t deadline_ns);

/* As accept(2): the number of a connected socket; *addr (may be NULL) is the peer's address, *len its size,
 * before and after. -EINVAL: not listening; -EMFILE: no socket is free, and who waits to be accepted goes on waiting. */
GW_SLOW_FN int gw_sock_accept_thread(struct gw_net *net, int s, struct sockaddr *addr, socklen_t *len,
                                     uint64_t deadline_ns);

/*
 * As connect(2). With deadline 0 it begins and returns -EINPROGRESS: poll for POLLOUT, then call again for
 * the result, 0 once. -EISCONN, -EALREADY; -ECONNREFUSED: nobody listens there; -ENETUNREACH, -EHOSTUNREACH;
 * -ETIMEDOUT: it goes on, as after -EINPROGRESS. -ECONNABORTED: it has failed, and that was told: close the
 * socket. -EOPNOTSUPP: it listens. Of datagrams it sets the peer, at once, and may do so again.
 */
GW_SLOW_FN int gw_sock_connect_thread(struct gw_net *net, int s, const struct sockaddr *addr, socklen_t len,
                                      uint64_t deadline_ns);

/* As shutdown(2): SHUT_RD, SHUT_WR, SHUT_RDWR. The peer reads what was sent, and the end of the stream then. */
GW_SLOW_FN int gw_sock_shutdown_thread(struct gw_net *net, int s, int how, uint64_t deadline_ns);

/*
 * Closes: the number is free again, whatever is returned, but for -EBADF. It waits until the peer's NIC, or the
 * host's socket, has all that was sent; -ETIMEDOUT: it had not at the deadline, and what is missing is lost. Others who wait on
 * the socket get -EBADF. Of several who close it one does, the others get -EBADF.
 * -EBUSY: a group keeps what it has borrowed or reserved; the socket stays open.
 */
GW_SLOW_FN int gw_sock_close_thread(struct gw_net *net, int s, uint64_t deadline_ns);

/* As getsockname(2) and getpeername(2). Never wait. */
GW_SLOW_FN int gw_sock_name_thread(struct gw_net *net, int s, struct sockaddr *addr, socklen_t *len);
GW_SLOW_FN int gw_sock_peer_thread(struct gw_net *net, int s, struct sockaddr *addr, socklen_t *len);

/*
 * As getsockopt(2) and setsockopt(2). getsockopt never waits; setsockopt asks the helper, and waits for
 * GW_SOCK_HELPER_NS at most. What is set on a listening socket is inherited by those it accepts from then on.
 *
 *   SOL_SOCKET   SO_RCVBUF, SO_SNDBUF       bytes of its buffers: rounded up to a power of two, 4 KiB at least and
 *                                           the set's rbuf and wbuf at most; -EISCONN: once it connects
 *                SO_REUSEADDR               rdma_cm's: before bind
 *                SO_KEEPALIVE               does a call that waits, or finds nothing, ask the peer's NIC whether it is there?
 *                SO_LINGER                  how long close waits at most, if its deadline is later; on and 0 seconds:
 *                                           close drops what is under way, and the peer gets -ECONNRESET
 *                SO_RCVTIMEO, SO_SNDTIMEO   struct timeval, 0: none. The most that a call waits that receives or accepts,
 *                                           that sends or connects, if its deadline is later: -ETIMEDOUT then. Of
 *                                           milliseconds, rounded up. -EDOM: not a time. close, shutdown, commit and
 *                                           poll go by their deadline alone
 *                SO_ERROR                   why connecting has failed, or the stream; told once
 *                SO_TYPE, SO_DOMAIN, SO_PROTOCOL, SO_ACCEPTCONN
 *   GW_SOL_SOCKET GW_SO_RDMA                see above; -EISCONN: once it is bound or connects; -EOPNOTSUPP: a set
 *                                           without a device, or made for RDMA alone, a UNIX socket, or
 *                                           datagrams: what carries those the set says
 *                GW_SO_NONBLOCK             the same calls wait as with deadline 0: not at all. Accepted sockets do not
 *                                           inherit it
 *   IPPROTO_TCP  TCP_NODELAY                kept; nothing is ever delayed
 *                TCP_KEEPIDLE               seconds between questions, 1 … 32767
 *                TCP_KEEPINTVL, TCP_KEEPCNT 1 … 32767 seconds, 1 … 127: their product is how long a question may go
 *                                           unanswered (-ETIMEDOUT), if the NIC does not give up before (-ECONNRESET)
 *
 * -ENOPROTOOPT: no such option, or not one that can be set. -EINVAL: the value, or its length.
 */
GW_SLOW_FN int gw_sock_getsockopt_thread(struct gw_net *net, int s, int level, int name, void *value,
                                         socklen_t *len);
GW_SLOW_FN int gw_sock_setsockopt_thread(struct gw_net *net, int s, int level, int name, const void *value,
                                         socklen_t len);

/* As poll(2): fds of sockets of this set (negative ones are skipped), POLLIN and POLLOUT asked for, POLLERR,
 * POLLHUP and POLLNVAL told besides. How many have something; 0 at the deadline. */
GW_SLOW_FN int gw_sock_poll_thread(struct gw_net *net, struct pollfd *fds, uint32_t n, uint64_t deadline_ns);

/* ---- kernels: data ------------------------------------------------------------------------------------ */

/*
 * As send(2) and recv(2): bytes moved, or an error if none was. Sending moves all, but at the deadline.
 * Receiving moves what is there and waits for the first byte alone. Flags: MSG_DONTWAIT (as deadline 0),
 * MSG_NOSIGNAL (there are no signals); receiving: MSG_PEEK, MSG_WAITALL (with both: what is there). Others:
 * -EOPNOTSUPP. When send returns, the bytes may be overwritten.
 */
GW_DEV int64_t gw_sock_send_thread(struct gw_net *net, int s, const void *bytes, uint64_t n, int flags,
                                   uint64_t deadline_ns);
GW_DEV int64_t gw_sock_recv_thread(struct gw_net *net, int s, void *bytes, uint64_t n, int flags,
                                   uint64_t deadline_ns);

/*
 * As sendto(2) and recvfrom(2). Datagrams (send and recv take them, too): each call moves one, and bytes of it that
 * find no room are lost, with MSG_TRUNC told of by the result, the datagram's whole length. -EMSGSIZE: longer than 65507
 * bytes, or than half of the set's wbuf less 128; longer ones than half of rbuf less 128 are cut when they come. Over RDMA:
 * longer than 2040 bytes (IPv6: 2024), or than the port's MTU less 8 (24).
 * -EDESTADDRREQ, -ENOTCONN: no address, and not connected. Errors of the network, -ECONNREFUSED and others, are told
 * once, by a later call. No borrow and no reserve: -EOPNOTSUPP. On a stream, as with Linux' TCP, the address to send to is not looked at, and no
 * address is told: *len becomes 0. -EINVAL: an address longer than any; from without len.
 */
GW_DEV int64_t gw_sock_sendto_thread(struct gw_net *net, int s, const void *bytes, uint64_t n, int flags,
                                     const struct sockaddr *to, socklen_t len, uint64_t deadline_ns);
GW_DEV int64_t gw_sock_recvfrom_thread(struct gw_net *net, int s, void *bytes, uint64_t n, int flags,
                                       struct sockaddr *from, socklen_t *len, uint64_t deadline_ns);

/*
 * As writev(2) and readv(2): up to GW_SOCK_IOV_MAX stretches of memory in a row, as one send or recv without
 * flags; 0 at once if they have no bytes at all. Every thread of the group reads the n entries of iov. -EINVAL: n,
 * or more bytes than an int64_t counts.
 */
GW_DEV int64_t gw_sock_writev_thread(struct gw_net *net, int s, const struct iovec *iov, int n,
                                     uint64_t deadline_ns);
GW_DEV int64_t gw_sock_readv_thread(struct gw_net *net, int s, const struct iovec *iov, int n,
                                    uint64_t deadline_ns);

/*
 * Receiving without a copy: where the next bytes lie, and how many of them lie there in a row: at least 1; 0: the
 * end of the stream. give_back returns the first n of them to the peer (all, some or none: those that are not
 * come again) and follows each borrow that returned more than 0, by the same group; between the two no other
 * group receives, and nobody closes the socket. -EINVAL: more than there are; none is given back.
 */
GW_DEV int64_t gw_sock_borrow_thread(struct gw_net *net, int s, const void **bytes, uint64_t deadline_ns);
GW_DEV int gw_sock_give_back_thread(struct gw_net *net, int s, uint64_t n);

/*
 * Sending without a copy: room for the next bytes, how much in a row: at least 1; or an error. The group fills as
 * much of it as it likes from the beginning, by any of its threads, and commit sends the first n bytes (all, some or none);
 * it waits, until its own deadline, for room in the send queue alone. Commit follows each reserve that returned
 * more than 0, by the same group, and ends what was reserved whatever it returns: 0, or why nothing was sent;
 * -EINVAL: more than there is room for. Between the two no other group sends, and nobody closes the socket.
 */
GW_DEV int64_t gw_sock_reserve_thread(struct gw_net *net, int s, void **bytes, uint64_t deadline_ns);
GW_DEV int gw_sock_commit_thread(struct gw_net *net, int s, uint64_t n, uint64_t deadline_ns);

/*
 * Direct access, as librdmacm's riomap, riounmap and riowrite: the peer's memory is written to without its program.
 * iomap offers it n bytes of ours, at the offsets from `offset` on; addr and rkey: of memory that gw_sockets_map has
 * registered. iounmap takes that back: what the peer wrote before it knew of it still arrives. Both wait for the
 * peer's credit, as sending does, and take one of its entries and credits; librdmacm's never gives these credits
 * back (it has a few hundred), ours do. -ENOMEM: the peer offers no entry, or none is free; -EINVAL: no bytes, or
 * too many; nothing of that kind was offered.
 *
 * iowrite writes where the peer has offered it; the bytes may be overwritten when it returns. How many were written;
 * fewer, where the peer's memory ends. They are there before what is sent afterwards, and in no order
 * among themselves that this interface promises (see verbs.h). -ENXIO: the peer offers nothing at that offset. Flags:
 * MSG_DONTWAIT, MSG_NOSIGNAL.
 *
 * -EOPNOTSUPP: not a stream over RDMA.
 */
GW_SLOW_FN int gw_sock_iomap_thread(struct gw_net *net, int s, uint64_t addr, uint32_t rkey, uint64_t n,
                                    uint64_t offset, uint64_t deadline_ns);
GW_SLOW_FN int gw_sock_iounmap_thread(struct gw_net *net, int s, uint64_t addr, uint64_t n,
                                      uint64_t deadline_ns);
GW_DEV int64_t gw_sock_iowrite_thread(struct gw_net *net, int s, const void *bytes, uint64_t n,
                                      uint64_t offset, int flags, uint64_t deadline_ns);

/* Every call above has a block form, without _thread, and a _warp form. */

#include <gpuwire/socket_state_impl.h>
#include <gpuwire/stream_impl.h>
#include <gpuwire/stream_send_impl.h>
#include <gpuwire/stream_recv_impl.h>
#include <gpuwire/pipe_impl.h>
#include <gpuwire/socket_ask_impl.h>
#include <gpuwire/rd_impl.h>
#include <gpuwire/socket_kind_impl.h>
#include <gpuwire/socket_setup_impl.h>
#include <gpuwire/socket_options_impl.h>
#include <gpuwire/socket_vec_impl.h>
#include <gpuwire/pipe_data_impl.h>
#include <gpuwire/stream_data_impl.h>
#include <gpuwire/dgram_impl.h>
#include <gpuwire/rd_data_impl.h>
#include <gpuwire/socket_impl.h>

#endif
