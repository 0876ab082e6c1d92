//! LaTeX symbol commands and their Unicode and ASCII forms.

/// Name, Unicode and ASCII form. Relations and operators have a space on each side.
const LATEX_SYMBOLS: &[(&str, &str, &str)] = &[
    ("alpha", "α", "alpha"),
    ("beta", "β", "beta"),
    ("gamma", "γ", "gamma"),
    ("delta", "δ", "delta"),
    ("epsilon", "ϵ", "epsilon"),
    ("varepsilon", "ε", "epsilon"),
    ("zeta", "ζ", "zeta"),
    ("eta", "η", "eta"),
    ("theta", "θ", "theta"),
    ("iota", "ι", "iota"),
    ("kappa", "κ", "kappa"),
    ("lambda", "λ", "lambda"),
    ("mu", "μ", "mu"),
    ("nu", "ν", "nu"),
    ("xi", "ξ", "xi"),
    ("pi", "π", "pi"),
    ("rho", "ρ", "rho"),
    ("sigma", "σ", "sigma"),
    ("tau", "τ", "tau"),
    ("upsilon", "υ", "upsilon"),
    ("phi", "ϕ", "phi"),
    ("varphi", "φ", "phi"),
    ("chi", "χ", "chi"),
    ("psi", "ψ", "psi"),
    ("omega", "ω", "omega"),
    ("Gamma", "Γ", "Gamma"),
    ("Delta", "Δ", "Delta"),
    ("Theta", "Θ", "Theta"),
    ("Lambda", "Λ", "Lambda"),
    ("Xi", "Ξ", "Xi"),
    ("Pi", "Π", "Pi"),
    ("Sigma", "Σ", "Sigma"),
    ("Phi", "Φ", "Phi"),
    ("Psi", "Ψ", "Psi"),
    ("Omega", "Ω", "Omega"),
    ("infty", "∞", "oo"),
    ("partial", "∂", "d"),
    ("nabla", "∇", "nabla"),
    ("hbar", "ℏ", "hbar"),
    ("ell", "ℓ", "l"),
    ("emptyset", "∅", "{}"),
    ("ldots", "…", "..."),
    ("cdots", "⋯", "..."),
    ("dots", "…", "..."),
    ("prime", "′", "'"),
    ("forall", "∀", "forall "),
    ("exists", "∃", "exists "),
    ("degree", "°", "deg"),
    ("angle", "∠", "angle "),
    ("Re", "ℜ", "Re"),
    ("Im", "ℑ", "Im"),
    ("cdot", " ⋅ ", " * "),
    ("times", " × ", " x "),
    ("div", " ÷ ", " / "),
    ("pm", " ± ", " +- "),
    ("mp", " ∓ ", " -+ "),
    ("ast", " ∗ ", " * "),
    ("circ", " ∘ ", " o "),
    ("leq", " ≤ ", " <= "),
    ("le", " ≤ ", " <= "),
    ("geq", " ≥ ", " >= "),
    ("ge", " ≥ ", " >= "),
    ("neq", " ≠ ", " != "),
    ("ne", " ≠ ", " != "),
    ("approx", " ≈ ", " ~= "),
    ("equiv", " ≡ ", " == "),
    ("sim", " ∼ ", " ~ "),
    ("propto", " ∝ ", " ~ "),
    ("ll", " ≪ ", " << "),
    ("gg", " ≫ ", " >> "),
    ("in", " ∈ ", " in "),
    ("notin", " ∉ ", " not in "),
    ("subset", " ⊂ ", " subset "),
    ("subseteq", " ⊆ ", " subseteq "),
    ("cup", " ∪ ", " u "),
    ("cap", " ∩ ", " n "),
    ("setminus", " ∖ ", " \\ "),
    ("to", " → ", " -> "),
    ("rightarrow", " → ", " -> "),
    ("leftarrow", " ← ", " <- "),
    ("Rightarrow", " ⇒ ", " => "),
    ("implies", " ⟹ ", " ==> "),
    ("iff", " ⟺ ", " <=> "),
    ("Leftrightarrow", " ⇔ ", " <=> "),
    ("mapsto", " ↦ ", " |-> "),
    ("land", " ∧ ", " and "),
    ("wedge", " ∧ ", " ^ "),
    ("lor", " ∨ ", " or "),
    ("vee", " ∨ ", " v "),
    ("neg", "¬", "not "),
    ("mid", " | ", " | "),
    ("parallel", " ∥ ", " || "),
    ("perp", " ⊥ ", " perp "),
    ("otimes", " ⊗ ", " (x) "),
    ("oplus", " ⊕ ", " (+) "),
    ("mathbb{R}", "ℝ", "R"),
    ("langle", "⟨", "<"),
    ("rangle", "⟩", ">"),
    ("lfloor", "⌊", "["),
    ("rfloor", "⌋", "]"),
    ("lceil", "⌈", "["),
    ("rceil", "⌉", "]"),
    ("vert", "|", "|"),
    ("lvert", "|", "|"),
    ("rvert", "|", "|"),
    ("Vert", "‖", "||"),
    ("|", "‖", "||"),
    ("{", "{", "{"),
    ("}", "}", "}"),
    ("%", "%", "%"),
    ("$", "$", "$"),
    ("#", "#", "#"),
    ("&", "&", "&"),
    ("_", "_", "_"),
    (",", " ", " "),
    (":", " ", " "),
    (";", " ", " "),
    (" ", " ", " "),
    ("!", "", ""),
    ("quad", "  ", "  "),
    ("qquad", "    ", "    "),
    ("lbrace", "{", "{"),
    ("rbrace", "}", "}"),
    ("backslash", "\\", "\\"),
];

/// Named functions, written as upright words.
const WORDS: &[&str] = &[
    "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
    "log", "ln", "exp", "det", "dim", "ker", "gcd", "arg", "deg", "Pr", "mod",
];

/// Operators that take their limits above and below.
const LIMITS: &[&str] =
    &["lim", "max", "min", "sup", "inf", "limsup", "liminf", "argmax", "argmin"];

/// Returns the symbol of a command.
pub(super) fn symbol_for(name: &str, ascii: bool) -> Option<&'static str> {
    let (_, unicode, plain) = LATEX_SYMBOLS.iter().find(|(known, _, _)| *known == name)?;
    Some(if ascii { plain } else { unicode })
}

/// Returns the upright name of a function command.
pub(super) fn function_name(name: &str) -> Option<&'static str> {
    WORDS.iter().find(|known| **known == name).copied()
}

/// Returns the name of an operator that takes limits.
pub(super) fn operator_with_limits(name: &str) -> Option<&'static str> {
    LIMITS.iter().find(|known| **known == name).copied()
}

/// Returns the rows of a large operator, and whether its limits are above and below it.
pub(super) fn large_operator(name: &str, ascii: bool) -> Option<(&'static [&'static str], bool)> {
    Some(match (name, ascii) {
        ("sum", false) => (&["⎲", "⎳"], true),
        ("sum", true) => (&["___", "\\  ", "/__"], true),
        ("prod", false) => (&["┬─┬", "│ │"], true),
        ("prod", true) => (&["___", "| |", "| |"], true),
        ("int", false) => (&["⌠", "⌡"], false),
        ("int", true) => (&[" /", "| ", "/ "], false),
        ("oint", false) => (&["⌠", "∮", "⌡"], false),
        ("oint", true) => (&[" /", "o ", "/ "], false),
        ("iint", false) => (&["⌠⌠", "⌡⌡"], false),
        ("iint", true) => (&[" / /", "| | ", "/ / "], false),
        ("bigcup", false) => (&["⋃"], true),
        ("bigcap", false) => (&["⋂"], true),
        _ => return None,
    })
}

/// Converts a script to superscript or subscript characters, if every character has one.
pub(super) fn inline_script(text: &str, is_superscript: bool) -> Option<String> {
    const PLAIN: &str = "0123456789+-=()nixyzabcdefghjklmoprstuvw";
    const ABOVE: &str = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱˣʸᶻᵃᵇᶜᵈᵉᶠᵍʰʲᵏˡᵐᵒᵖʳˢᵗᵘᵛʷ";
    const BELOW: &str = "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₙᵢₓ  ₐ   ₑ  ₕⱼₖₗₘₒₚᵣₛₜᵤᵥ ";
    let table = if is_superscript { ABOVE } else { BELOW };
    let one = |c: char| {
        let at = PLAIN.chars().position(|plain| plain == c)?;
        table.chars().nth(at).filter(|found| *found != ' ')
    };
    text.chars().filter(|c| *c != ' ').map(one).collect()
}
