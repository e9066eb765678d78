package stay

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// TestItStandsSinceTheFirstAttempt: a reason whose words change at each attempt is not a new stop. It is one when the
// relay has worked in between.
//
// Bug (monitor): A connector that waits for an operator began to wait again with each new figure in its reason. Cost:
// "since 4 ms" for a slot that was lost for hours.
func TestItStandsSinceTheFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.ErrorLevel)
		s := New(Config{On: true, Logger: zap.New(core)})
		ctx, end := context.WithCancel(t.Context())
		began := time.Now().UTC()
		n := 0
		err := s.Run(ctx, func(context.Context) error {
			switch n++; n {
			case 4:
				require.Equal(t, began, s.Standing().State.Since)
				require.Equal(t, "the slot is lost, 3 MiB too late", s.Standing().State.Reason)
				require.Equal(t, 3, logs.Len(), "each reason once")
				s.GoesOn()
				require.Nil(t, s.Standing())
			case 5:
				require.Greater(t, s.Standing().State.Since, began)
				end()
			}
			return fmt.Errorf("the slot is lost, %d MiB too late", n)
		})
		require.Error(t, err)
	})
}

func TestADroppedReasonIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.ErrorLevel)
		s := New(Config{On: true, Logger: zap.New(core)})
		n := 0
		require.NoError(t, s.Run(t.Context(), func(context.Context) error {
			if n++; n == 10 {
				return nil
			}
			return errors.New("the same")
		}))
		require.Equal(t, 1, logs.Len())
	})
}
