package nats

import (
	"context"
	"encoding/json"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// getRequest asks for the message at the sequence, or for the next one of a subject from there on.
type getRequest struct {
	Seq     uint64 `json:"seq"`
	Subject string `json:"next_by_subj,omitempty"`
}

type getResponse struct {
	Error   *jetstream.APIError `json:"error"`
	Message struct {
		Subject  string    `json:"subject"`
		Sequence uint64    `json:"seq"`
		Header   []byte    `json:"hdrs"`
		Data     []byte    `json:"data"`
		Time     time.Time `json:"time"`
	} `json:"message"`
}

// stored returns a message of the stream, nil if it is not there. The leader of the stream answers. The library asks
// any replica of a stream with allow_direct, and what a replica does not have yet is as if it did not exist.
func (c *connection) stored(ctx context.Context, stream string, r getRequest) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	answer, err := c.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, request)
	if err != nil {
		return nil, err
	}
	var got getResponse
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return nil, err
	}
	switch {
	case got.Error != nil && got.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, nil
	case got.Error != nil:
		return nil, got.Error
	}
	m := &jetstream.RawStreamMsg{
		Subject: got.Message.Subject, Sequence: got.Message.Sequence, Data: got.Message.Data, Time: got.Message.Time,
	}
	if h, err := client.DecodeHeadersMsg(got.Message.Header); err == nil { // the relay writes headers that can be read
		m.Header = h
	}
	return m, nil
}
