/* What the headers need of it; PyPI's libclang brings no system headers. */
typedef unsigned long size_t;
#define NULL ((void*)0)
