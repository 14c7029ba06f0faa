package rabbitmq

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/outboxlab/pkg/service"
)

// This file keeps why a session ended. The broker says it once, to a listener; every call after that, and every
// call under way, gets only "channel/connection is not open" (504) from the client library.

// ErrEnded is what a session ends with that notices its end by what comes no more, such as messages.
var ErrEnded = errors.New("session ended by the broker")

// EndedError says why the channel, or its connection, was closed.
type EndedError struct {
	Reason *amqp.Error
	text   string
}

func (e *EndedError) Error() string { return e.text }

func (e *EndedError) Unwrap() error { return e.Reason }

// Is makes it an ErrEnded, too.
func (e *EndedError) Is(target error) bool { return target == ErrEnded }

// follow waits for the end of the session.
func (c *Conn) follow(connection, channel <-chan *amqp.Error) {
	select {
	case c.reason = <-connection:
	case c.reason = <-channel:
	}
	close(c.ended)
}

// Ended is closed when the channel that Open returned, or the whole connection, has been closed.
func (c *Conn) Ended() <-chan struct{} { return c.ended }

// reasonTimeout bounds the wait for a reason that follows at once.
const reasonTimeout = time.Second

// Reason is why the session has ended: nil if it has not, or if this side has closed it.
func (c *Conn) Reason() *amqp.Error {
	if !c.IsClosed() && (c.channel == nil || !c.channel.IsClosed()) {
		return nil
	}
	select {
	case <-c.ended:
		return c.reason
	case <-time.After(reasonTimeout):
		return nil
	}
}

// Explain puts the reason why the session ended in the place of an error that only says that it has.
func (c *Conn) Explain(err error) error {
	if afterwards(err) == "" || explained(err) {
		return err
	}
	reason := c.Reason()
	if reason == nil {
		return err
	}
	err = &EndedError{reason, strings.Replace(err.Error(), afterwards(err), inWords(reason), 1)}
	if reason.Server && reason.Code == amqp.AccessRefused { // a permission that is missing
		return service.Permanent(err)
	}
	return err
}

func explained(err error) bool {
	_, ok := errors.AsType[*EndedError](err)
	return ok
}

func inWords(reason *amqp.Error) string {
	if !reason.Server {
		return "connection to the broker lost: " + reason.Reason
	}
	return fmt.Sprintf("%v: %d %s", ErrEnded, reason.Code, reason.Reason)
}

// afterwards is the part of an error that can be the consequence of an end that has another reason; "" if there is none.
func afterwards(err error) string {
	for _, end := range []error{amqp.ErrClosed, ErrEnded, io.EOF, net.ErrClosed} {
		if errors.Is(err, end) {
			return end.Error()
		}
	}
	if broken, ok := errors.AsType[net.Error](err); ok {
		return broken.Error()
	}
	return ""
}

// noWaitingHeals tells whether an error of opening a session stays until somebody changes something: the
// account, its permissions, the vhost, or what exists there under our names in another form. What somebody
// else may release is none of that: a limit that is reached, an exclusive consumer.
func noWaitingHeals(err error) bool {
	if errors.Is(err, amqp.ErrSASL) {
		return true
	}
	refused, ok := errors.AsType[*amqp.Error](err)
	if !ok || !refused.Server {
		return false
	}
	switch refused.Code {
	case amqp.AccessRefused:
		return !strings.Contains(refused.Reason, "exclusive use")
	case amqp.NotAllowed:
		return !strings.Contains(refused.Reason, "limit")
	case amqp.PreconditionFailed, amqp.NotImplemented:
		return true
	}
	return false
}
