package perf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/signed"
)

// defaultTrusted is the list of trusted keys in a checkout.
const defaultTrusted = "bench-results/trusted-keys"

// The gate reads a baseline only if its signature verifies. It asks package
// results, which knows no signatures.
func init() {
	results.Verify = func(file string) error {
		trusted, err := signed.LoadTrusted(defaultTrusted)
		if err != nil {
			return err
		}
		return signed.Verify(file, trusted)
	}
}

func signScenario() scenario.Scenario {
	return scenario.Scenario{
		Name:    "sign",
		Summary: "sign recorded results: sign FILE...",
		Details: "Writes FILE.sig beside each FILE: an Ed25519 and an ML-DSA-65 signature of its\n" +
			"canonical JSON and its name.",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			var files []string
			keyFile := defaultKeyFile()
			flags.Operands = &files
			flags.Text(&keyFile, "", "key", "FILE", "private key, made by keygen")
			return func(_ context.Context, out scenario.Console) error {
				if len(files) == 0 {
					return cli.Usagef("sign needs the files to be signed")
				}
				return runSign(files, keyFile, out)
			}
		},
	}
}

func runSign(files []string, keyFile string, out scenario.Console) error {
	key, err := signed.LoadKey(keyFile)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := signed.SignFile(file, key); err != nil {
			return err
		}
		fmt.Fprintf(out.Stdout, "%s: signed by %s\n", file+signed.Suffix, key.Name)
	}
	return nil
}

func verifyScenario() scenario.Scenario {
	return scenario.Scenario{
		Name:    "verify",
		Summary: "verify the signatures of recorded results: verify FILE...",
		Details: "Exit status 1 unless each FILE.sig is by a trusted key and both of its signatures are\n" +
			"of FILE's content and name.",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			var files []string
			trustedFile := defaultTrusted
			flags.Operands = &files
			flags.Text(&trustedFile, "", "trusted", "FILE", "the keys whose signatures count")
			return func(_ context.Context, out scenario.Console) error {
				if len(files) == 0 {
					return cli.Usagef("verify needs the files to be verified")
				}
				return runVerify(files, trustedFile, out)
			}
		},
	}
}

// runVerify looks at all files, also after one that is refused.
func runVerify(files []string, trustedFile string, out scenario.Console) error {
	trusted, err := signed.LoadTrusted(trustedFile)
	if err != nil {
		return err
	}
	refused := 0
	for _, file := range files {
		_, signer, err := signed.ReadVerified(file, trusted)
		if err != nil {
			refused++
			fmt.Fprintf(out.Stdout, "REFUSED %s\n", err)
			continue
		}
		fmt.Fprintf(out.Stdout, "%s: signed by %s, key %s\n", file, signer.Name, signer.Fingerprint)
	}
	if refused > 0 {
		return fmt.Errorf("%d of %d files refused", refused, len(files))
	}
	return nil
}

func keygenScenario() scenario.Scenario {
	return scenario.Scenario{
		Name:    "keygen",
		Summary: "make a key to sign results with",
		Details: "Writes the private key to a new file that only you can read, and prints the line that\n" +
			"makes others trust it once it is in " + defaultTrusted + ".",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			keyFile := defaultKeyFile()
			var name, trustedFile string
			flags.Text(&name, "", "name", "NAME", "who signs with it")
			flags.Text(&keyFile, "", "key", "FILE", "where the private key goes")
			flags.Text(&trustedFile, "", "trust", "FILE", "append the line to this list of trusted keys")
			return func(_ context.Context, out scenario.Console) error {
				if name == "" {
					return cli.Usagef("keygen needs --name: who signs with the key")
				}
				return runKeygen(name, keyFile, trustedFile, out)
			}
		},
	}
}

func runKeygen(name, keyFile, trustedFile string, out scenario.Console) error {
	if keyFile == "" {
		return errors.New("no place for the private key: $HOME is not set, name a file with --key")
	}
	key, err := signed.GenerateKey(name)
	if err != nil {
		return err
	}
	if err := key.Save(keyFile); err != nil {
		return err
	}
	fmt.Fprintf(out.Stderr, "The private key is in %s: never commit it. Its fingerprint is\n%s\n", keyFile, key.Fingerprint)
	fmt.Fprintln(out.Stdout, key.TrustLine())
	if trustedFile != "" {
		return signed.Trust(trustedFile, &key.PublicKey)
	}
	return nil
}

// defaultKeyFile is outside of any checkout; empty when there is no home.
func defaultKeyFile() string {
	directory, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(directory, "basaltmq", "signing-key")
}
