# Homebrew formula of Toolkeep, for Homebrew on Linux.
class Toolkeep < Formula
  desc "Tool registry and execution gateway for AI agents"
  homepage "https://github.com/toolkeep/toolkeep"
  version "{{version}}"
  license "Apache-2.0"

  depends_on :linux

  on_intel do
    url "https://github.com/toolkeep/toolkeep/releases/download/v{{version}}/toolkeep-{{version}}-linux-x86_64.tar.gz"
    sha256 "{{sha256_x86_64}}"
  end
  on_arm do
    url "https://github.com/toolkeep/toolkeep/releases/download/v{{version}}/toolkeep-{{version}}-linux-aarch64.tar.gz"
    sha256 "{{sha256_aarch64}}"
  end

  def install
    bin.install "toolkeep"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/toolkeep.bash" => "toolkeep"
    zsh_completion.install "completions/toolkeep.zsh" => "_toolkeep"
    fish_completion.install "completions/toolkeep.fish"
    doc.install "THIRD-PARTY-LICENSES.txt", "toolkeep.cdx.json"
  end

  service do
    run [opt_bin/"toolkeep", "serve"]
    keep_alive true
    environment_variables TOOLKEEP_DATA: var/"toolkeep"
  end

  test do
    output = shell_output("#{bin}/toolkeep --data #{testpath}/data tool call calculator expression='6*7'")
    assert_match '"result":42', output
  end
end
