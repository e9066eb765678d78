package rabbitmq

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Bounds of a connection.
const (
	dialTimeout  = 5 * time.Second
	closeTimeout = 2 * time.Second
	channels     = 4
	inFlight     = 1024    // messages of a channel without an answer
	overtaken    = 1 << 16 // confirms that may overtake one that does not come: the client keeps them all
)

// link is one connection, with its channels in confirm mode and one for questions.
type link struct {
	cluster *Cluster
	conn    *amqp.Connection
	raw     *heldConn
	closed  chan *amqp.Error
	blocks  chan amqp.Blocking

	publishers [channels]*publisher

	mu       sync.Mutex // one question at a time
	question *amqp.Channel
}

// connect opens a connection to one of the servers, which ends with ctx at the latest.
func (c *Cluster) connect(ctx context.Context) (*link, error) {
	settings, err := c.settings()
	if err != nil {
		return nil, err
	}
	scheme := "amqp://"
	if settings.TLSClientConfig != nil {
		scheme = "amqps://"
	}
	var failed error
	for _, address := range c.Addresses {
		l := &link{cluster: c}
		settings.Dial = func(_, _ string) (net.Conn, error) {
			raw, err := dial(ctx, address)
			if err != nil {
				return nil, err
			}
			l.raw = raw
			return raw, nil
		}
		settings := settings
		if settings.TLSClientConfig != nil {
			settings.TLSClientConfig = settings.TLSClientConfig.Clone()
		}
		l.conn, err = amqp.DialConfig(scheme+address+"/", settings)
		if err == nil {
			l.closed = l.conn.NotifyClose(make(chan *amqp.Error, 1))
			l.blocks = l.conn.NotifyBlocked(make(chan amqp.Blocking, 16))
			return l, nil
		}
		if l.raw != nil {
			_ = l.raw.Close()
		}
		failed = &addressError{address, err}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// addressError is for a server that cannot be used.
type addressError struct {
	address string
	err     error
}

func (e *addressError) Error() string { return e.address + ": " + e.err.Error() }
func (e *addressError) Unwrap() error { return e.err }

// close ends the connection. If the server answers, it has read all that was sent.
func (l *link) close() {
	_ = l.raw.SetDeadline(time.Now().Add(closeTimeout)) // a writer that waits for the server has the lock
	_ = l.raw.release()
	_ = l.conn.CloseDeadline(time.Now().Add(closeTimeout))
	_ = l.raw.Close()
}

// ask puts a question on the channel for questions. A refusal closes a channel, so the next question has another.
func (l *link) ask(question func(*amqp.Channel) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.question == nil {
		ch, err := l.conn.Channel()
		if err != nil {
			return err
		}
		l.question = ch
	}
	err := question(l.question)
	if err != nil {
		l.question = nil
	}
	return err
}

// take declares the exclusive queue of an owner.
func (l *link) take(owner string) error {
	return l.ask(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(owner, false, false, true, false, amqp.Table{"x-queue-type": "classic"})
		return err
	})
}

// exists is nil if the exchange exists, or has been created.
func (l *link) exists(exchange string) error {
	err := l.ask(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(exchange, l.cluster.Type, true, false, false, false, nil)
	})
	if !isCode(err, amqp.NotFound) || !l.cluster.Create {
		return err
	}
	return l.ask(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(exchange, l.cluster.Type, true, false, false, false, nil)
	})
}

// isCode reports whether the server has answered so.
func isCode(err error, code int) bool {
	var refused *amqp.Error
	return errors.As(err, &refused) && refused.Code == code
}

// limits are known from the handshake.
func (l *link) frame() int { return l.conn.Config.FrameSize }
