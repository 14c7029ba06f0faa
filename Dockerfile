# What is in the images of our own programs? One static binary each, on nothing: no shell, no package, no root.
# compose.yaml builds one target per service: migrations, orders, relay, loyalty.
#
# The binaries come from one of two stages, and BuildKit runs only the chosen one:
#   BINARIES=build     compiles them in GO_IMAGE (the default: Docker is all a machine needs)
#   BINARIES=prebuilt  takes bin/ as `make build` left it, where GO_IMAGE cannot be pulled
ARG GO_IMAGE=golang:1.26-alpine
ARG BINARIES=build

FROM ${GO_IMAGE} AS build
WORKDIR /src
# The modules change less often than the code: this layer outlives most edits.
COPY go.mod go.sum ./
RUN go mod download
COPY migrations/ migrations/
COPY pkg/ pkg/
COPY services/ services/
RUN CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /bin/ ./migrations ./services/...

FROM scratch AS prebuilt
COPY bin/ /bin/

FROM ${BINARIES} AS binaries

# --chmod: prebuilt binaries carry the modes that somebody's umask gave them, and the user below must be able to run them.
# 65532 is the customary "nonroot" id. scratch has no /etc/passwd, so an id is all there is.
FROM scratch AS migrations
COPY --from=binaries --chmod=0755 /bin/migrations /migrations
USER 65532:65532
ENTRYPOINT ["/migrations"]
CMD ["up"]

FROM scratch AS orders
COPY --from=binaries --chmod=0755 /bin/orders /orders
USER 65532:65532
ENTRYPOINT ["/orders"]

FROM scratch AS relay
COPY --from=binaries --chmod=0755 /bin/relay /relay
USER 65532:65532
ENTRYPOINT ["/relay"]

FROM scratch AS loyalty
COPY --from=binaries --chmod=0755 /bin/loyalty /loyalty
USER 65532:65532
ENTRYPOINT ["/loyalty"]
