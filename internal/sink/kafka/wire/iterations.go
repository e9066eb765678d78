package wire

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
)

// MaxIterations bounds the work of a login by SCRAM, of which the broker says how much there is (RFC 5802, 5.1).
// RFC 7677 asks for at least 4,096; Kafka takes 16,384 at most for a user (ScramMechanism). A million takes about a
// second, and nothing ends it meanwhile.
const MaxIterations = 1_000_000

// bounded is SCRAM that refuses more than MaxIterations.
type bounded struct{ sasl.Mechanism }

func (b bounded) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	session, first, err := b.Mechanism.Start(ctx)
	return boundedSession{session}, first, err
}

type boundedSession struct{ sasl.StateMachine }

func (s boundedSession) Next(ctx context.Context, challenge []byte) (bool, []byte, error) {
	for attribute := range strings.SplitSeq(string(challenge), ",") {
		count, isCount := strings.CutPrefix(attribute, "i=")
		if n, err := strconv.Atoi(count); isCount && (err != nil || n < 1 || n > MaxIterations) {
			return false, nil, fmt.Errorf("the broker asks for %.20q iterations of SCRAM, more than %d", count,
				MaxIterations)
		}
	}
	return s.StateMachine.Next(ctx, challenge)
}
