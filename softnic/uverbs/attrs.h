/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes of one ioctl, for handlers of methods that have no older form. Internal to softnic/uverbs.
 */
#ifndef SOFTNIC_UVERBS_ATTRS_H
#define SOFTNIC_UVERBS_ATTRS_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/rdma_user_ioctl_cmds.h>

#include "softnic/uverbs/object.h"

#define UV_MAX_ATTRS 32

struct uv_request {
    uint32_t object, method;
    uint32_t count;
    struct ib_uverbs_attr attrs[UV_MAX_ATTRS];
    uint64_t where; /* of the caller's attributes, for what goes back in them */
};

/* uv_attr - the attribute of that id, or NULL. */
const struct ib_uverbs_attr *uv_attr(const struct uv_request *r, uint16_t id);

/* uv_attr_in - its input, cut to `room` bytes; what it does not fill stays. 0; -EINVAL: there is none;
 * -EFAULT. */
int uv_attr_in(const struct uv_request *r, uint16_t id, void *to, size_t room);

/* uv_attr_object - the handle of an object that it names. 0, or -EINVAL: there is none. */
int uv_attr_object(const struct uv_request *r, uint16_t id, uint32_t *handle);

/* uv_attr_out - writes up to `len` bytes of output, none if the caller does not ask for it. 0 or -EFAULT. */
int uv_attr_out(const struct uv_request *r, uint16_t id, const void *from, size_t len);

/* uv_attr_filled - tells the caller that an output, if it asked for it, has its value. 0 or -EFAULT. */
int uv_attr_filled(const struct uv_request *r, uint16_t id);

/* uv_attr_handle - answers with a new object's handle, or an fd. 0; -EINVAL: no such attribute; -EFAULT. */
int uv_attr_handle(const struct uv_request *r, uint16_t id, int64_t handle);

/* Methods that take attributes. Under the file's lock, with a context. 0 or a negative errno. */
int uv_reg_dmabuf_mr(struct uv_file *f, const struct uv_request *r); /* mr.c */
int uv_query_mr(struct uv_file *f, const struct uv_request *r);
int uv_advise_mr(struct uv_file *f, const struct uv_request *r); /* advise.c */
int uv_alloc_dm(struct uv_file *f, const struct uv_request *r);  /* dm.c */
int uv_free_dm(struct uv_file *f, const struct uv_request *r);
int uv_query_dm(struct uv_file *f, const struct uv_request *r);
int uv_reg_dm_mr(struct uv_file *f, const struct uv_request *r);
int uv_alloc_uar(struct uv_file *f, const struct uv_request *r); /* uar.c */
int uv_free_uar(struct uv_file *f, const struct uv_request *r);
int uv_attr_get_context(struct uv_file *f, const struct uv_request *r); /* device.c; makes the context */
int uv_query_context(struct uv_file *f, const struct uv_request *r);
int uv_query_gid_entry(struct uv_file *f, const struct uv_request *r); /* gid.c */
int uv_query_gid_table(struct uv_file *f, const struct uv_request *r);
int uv_query_vport(struct uv_file *f, const struct uv_request *r);
int uv_attr_create_cq(struct uv_file *f, const struct uv_request *r); /* create.c */
int uv_attr_create_qp(struct uv_file *f, const struct uv_request *r);
int uv_attr_create_srq(struct uv_file *f, const struct uv_request *r);
int uv_query_pd(struct uv_file *f, const struct uv_request *r); /* mem.c */

#endif
