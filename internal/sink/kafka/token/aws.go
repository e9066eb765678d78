package token

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-msk-iam-sasl-signer-go/signer"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// AWS signs tokens for Amazon MSK. The credentials come from where every program with AWS's library finds them: the
// environment, the shared files, a web identity (IRSA), the container's endpoint (ECS, EKS pod identity), the instance.
type AWS struct {
	Region     string // empty: as the environment or the profile says
	Profile    string
	RoleARN    string // role to assume with the credentials found; empty for none
	ExternalID string // of the role
}

// session names the sessions of an assumed role in AWS's logs.
const session = "cdc-outbox"

// early is how long before their end temporary credentials are renewed: a token ends with them.
const early = 5 * time.Minute

// New returns a source of tokens.
func (a AWS) New() *Cache {
	var loaded *aws.Config
	return newCache(func(ctx context.Context) (wire.Token, error) {
		if loaded == nil {
			cfg, err := a.load(ctx)
			if err != nil {
				return wire.Token{}, a.failed(err)
			}
			loaded = cfg
		}
		return a.sign(ctx, loaded)
	})
}

func (a AWS) load(ctx context.Context) (*aws.Config, error) {
	options := []func(*config.LoadOptions) error{
		config.WithCredentialsCacheOptions(func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = early }),
	}
	if a.Region != "" {
		options = append(options, config.WithRegion(a.Region))
	}
	if a.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(a.Profile))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	switch {
	case err != nil:
		return nil, err
	case cfg.Region == "":
		return nil, errors.New("no region is configured")
	}
	if a.RoleARN != "" {
		role := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), a.RoleARN, func(o *stscreds.AssumeRoleOptions) {
			o.RoleSessionName = session
			if a.ExternalID != "" {
				o.ExternalID = &a.ExternalID
			}
		})
		cfg.Credentials = aws.NewCredentialsCache(role, func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = early })
	}
	return &cfg, nil
}

func (a AWS) sign(ctx context.Context, cfg *aws.Config) (wire.Token, error) {
	credentials, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return wire.Token{}, a.failed(err)
	}
	token, endMillis, err := signer.GenerateAuthTokenFromCredentialsProvider(ctx, cfg.Region, held{credentials})
	if err != nil {
		return wire.Token{}, a.failed(err)
	}
	t := wire.Token{Value: token, Expires: time.UnixMilli(endMillis)}
	if credentials.CanExpire && credentials.Expires.Before(t.Expires) { // a token ends with them
		t.Expires = credentials.Expires
		if !t.Expires.After(time.Now()) { // the cache has them end early, and they do not even last that long
			t.Expires = t.Expires.Add(early)
		}
	}
	return t, nil
}

// held are credentials that were retrieved.
type held struct{ aws.Credentials }

// Retrieve implements aws.CredentialsProvider.
func (h held) Retrieve(context.Context) (aws.Credentials, error) { return h.Credentials, nil }

func (a AWS) failed(err error) *wire.TokenError {
	const remedy = "Give this process credentials that AWS's library finds: variables AWS_…, a profile " +
		"(kafka.sasl.aws.profile), a web identity, EKS pod identity, or a role of the task or instance. Set " +
		"kafka.sasl.aws.region where the environment names no region."
	e := &wire.TokenError{Kind: sink.NoToken, Source: "AWS credential chain", Err: fault.OneLine(err), Remedy: remedy}
	var refused smithy.APIError
	if errors.As(err, &refused) && refused.ErrorFault() != smithy.FaultServer {
		e.Kind, e.Remedy = sink.NotAuthenticated, "Let the role be assumed: compare its trust policy and "+
			"kafka.sasl.aws.role_arn with the identity in the error."
	}
	return e
}
