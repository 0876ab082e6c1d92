def _toolkeep_n(x, _bool=bool, _int=int, _isinstance=isinstance):
    return _int(x) if _isinstance(x, _bool) else x


def _toolkeep_add(a, b):
    return _toolkeep_n(a) + _toolkeep_n(b)


def _toolkeep_sub(a, b):
    return _toolkeep_n(a) - _toolkeep_n(b)


def _toolkeep_mul(a, b):
    return _toolkeep_n(a) * _toolkeep_n(b)


def _toolkeep_iadd(a, b):
    a = _toolkeep_n(a)
    a += _toolkeep_n(b)
    return a


def _toolkeep_isub(a, b):
    a = _toolkeep_n(a)
    a -= _toolkeep_n(b)
    return a


def _toolkeep_imul(a, b):
    a = _toolkeep_n(a)
    a *= _toolkeep_n(b)
    return a


def _toolkeep_div(a, b):
    return _toolkeep_n(a) / _toolkeep_n(b)


def _toolkeep_floordiv(a, b):
    return _toolkeep_n(a) // _toolkeep_n(b)


def _toolkeep_pow(a, b):
    return _toolkeep_n(a) ** _toolkeep_n(b)


def _toolkeep_mod(a, b, _str=str, _isinstance=isinstance):
    if _isinstance(a, _str):
        return _toolkeep_percent(a, b)
    return _toolkeep_n(a) % _toolkeep_n(b)


def sum(iterable, /, start=0, _sum=sum):
    return _sum([_toolkeep_n(x) for x in iterable], _toolkeep_n(start))


def _toolkeep_percent(text, values):
    given = values if isinstance(values, tuple) else (values,)
    keyed = isinstance(values, dict)
    out, at, used = [], 0, 0
    while True:
        sign = text.find('%', at)
        if sign < 0:
            out.append(text[at:])
            break
        out.append(text[at:sign])
        at = sign + 1
        key = None
        if text[at:at + 1] == '(':
            end = text.find(')', at)
            if end < 0:
                raise ValueError('incomplete format key')
            if not keyed:
                raise TypeError('format requires a mapping')
            key, at = text[at + 1:end], end + 1
        flags = ''
        while text[at:at + 1] and text[at] in '-+ 0#':
            flags, at = flags + text[at], at + 1
        sizes = []
        for part in range(2):
            if part == 1:
                if text[at:at + 1] != '.':
                    sizes.append(None)
                    break
                at += 1
            if text[at:at + 1] == '*':
                if used >= len(given):
                    raise TypeError('not enough arguments for format string')
                sizes.append(given[used])
                used, at = used + 1, at + 1
                continue
            digits = ''
            while text[at:at + 1].isdigit():
                digits, at = digits + text[at], at + 1
            sizes.append(int(digits) if digits else (0 if part == 1 else None))
        while text[at:at + 1] and text[at] in 'hlL':
            at += 1
        kind = text[at:at + 1]
        if not kind:
            raise ValueError('incomplete format')
        at += 1
        width, precision = sizes[0], sizes[1]
        if kind == '%':
            out.append('%')
            continue
        if kind not in 'diuoxXeEfFgGcrsa':
            raise ValueError('unsupported format character ' + repr(kind))
        if key is not None:
            value = values[key]
        elif used < len(given):
            value, used = given[used], used + 1
        else:
            raise TypeError('not enough arguments for format string')
        out.append(_toolkeep_field(kind, flags, width, precision, value))
    if used < len(given) and not keyed:
        raise TypeError('not all arguments converted during string formatting')
    return ''.join(out)


def _toolkeep_field(kind, flags, width, precision, value):
    sign, prefix = '', ''
    number = kind not in 'crsa'
    if kind == 's' or kind == 'r' or kind == 'a':
        body = str(value) if kind == 's' else repr(value)
        if precision is not None:
            body = body[:precision]
    elif kind == 'c':
        body = value if isinstance(value, str) else chr(value)
    else:
        if isinstance(value, str) or value is None or isinstance(value, (list, dict, tuple)):
            wanted = 'an integer is' if kind in 'oxX' else 'a real number is'
            raise TypeError('%' + kind + ' format: ' + wanted + ' required, not ' + type(value).__name__)
        if kind in 'oxX' and isinstance(value, float):
            raise TypeError('%' + kind + ' format: an integer is required, not float')
        if kind in 'diuoxX':
            value = int(value)
            if value < 0:
                sign, value = '-', -value
            spec = 'd' if kind in 'diu' else kind
            body = ('{:' + spec + '}').format(value)
            if precision is not None:
                body = body.rjust(precision, '0')
            if '#' in flags and kind in 'oxX':
                prefix = '0' + kind
        else:
            value = float(value)
            if precision is None:
                precision = 6
            body = ('{:.' + str(precision) + kind + '}').format(value)
            if body[:1] == '-':
                sign, body = '-', body[1:]
        if not sign:
            sign = '+' if '+' in flags else (' ' if ' ' in flags else '')
    whole = sign + prefix + body
    if width is None or len(whole) >= abs(width):
        return whole
    if '-' in flags or width < 0:
        return whole.ljust(abs(width))
    if '0' in flags and number and body not in ('inf', 'nan', 'INF', 'NAN'):
        return sign + prefix + body.rjust(width - len(sign) - len(prefix), '0')
    return whole.rjust(width)


