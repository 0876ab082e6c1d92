;;;; What runs in the image: reads one form a line from Toolkeep's plugin, answers with texts.
;;;; An answer is a line with the number of texts, then each as a line with its length and the text.

(require :sb-introspect)

(defpackage :toolkeep-image
  (:use :cl)
  (:export #:buffer #:buffers))
(in-package :toolkeep-image)

(defvar *in* (sb-sys:make-fd-stream 0 :input t :buffering :full :external-format :utf-8))
(defvar *out* (sb-sys:make-fd-stream 1 :output t :buffering :full :external-format :utf-8))
(defvar *buffers* (make-hash-table :test 'equal))

(defun buffer (name) (values (gethash name *buffers*)))
(defun (setf buffer) (text name) (setf (gethash name *buffers*) (string text)))
(defun buffers () (sort (loop for name being the hash-keys of *buffers* collect name) #'string<))

(defun answer (&rest texts)
  (format *out* "~D~%" (length texts))
  (dolist (text texts) (format *out* "~D~%~A" (length text) text))
  (finish-output *out*))

(define-condition told (error) ((text :initarg :text :reader text)))
(defun tell (control &rest arguments) (error 'told :text (apply #'format nil control arguments)))

(defun the-package (name)
  (or (find-package (if (or (null name) (string= name "")) "CL-USER" (string-upcase name)))
      (tell "Package ~A not found" (string-upcase name))))

(defun the-symbol (name package)
  "The symbol of a name, which may say its package itself."
  (let* ((colon (position #\: name))
         (package (the-package (if (and colon (plusp colon)) (subseq name 0 colon) package)))
         (base (string-upcase (if colon (string-left-trim ":" (subseq name colon)) name))))
    (multiple-value-bind (symbol status) (find-symbol base package)
      (unless status
        (tell "Symbol ~A not found in package ~A (status: ~A)" base (package-name package) status))
      symbol)))

(defun kind (symbol)
  (cond ((macro-function symbol) "macro")
        ((and (fboundp symbol) (typep (fdefinition symbol) 'generic-function)) "generic-function")
        ((fboundp symbol) "function")
        ((boundp symbol) "variable")
        ((find-class symbol nil) "class")
        (t "symbol")))

(defun full-name (symbol)
  (format nil "~A::~A" (let ((p (symbol-package symbol))) (if p (package-name p) "#")) (symbol-name symbol)))

(defun describe-symbol (name package)
  (let ((symbol (the-symbol name package)))
    (with-output-to-string (out) (describe symbol out))))

(defun apropos-search (pattern package)
  (let* ((found (if (string= package "") (apropos-list pattern) (apropos-list pattern (the-package package))))
         (found (sort (remove-duplicates found) #'string< :key #'full-name)))
    (format nil "Found ~D symbol~:P matching \"~A\":~{~%~A~}" (length found) pattern
            (loop for symbol in found repeat 200 collect (format nil "~A [~A]" (full-name symbol) (kind symbol))))))

(defun function-arglist (name package)
  (let ((symbol (the-symbol name package)))
    (cond ((not (fboundp symbol)) (tell "~A is not a function" (symbol-name symbol)))
          ((special-operator-p symbol) (tell "Arglist not available for ~A" (symbol-name symbol)))
          (t (let ((list (sb-introspect:function-lambda-list
                          (or (macro-function symbol) (fdefinition symbol)))))
               (let ((*package* (symbol-package symbol)))
                 (format nil "~A ~:[()~;~:*~S~]" (symbol-name symbol) list)))))))

(defun shown (name) (let ((*package* (find-package :keyword))) (prin1-to-string name)))

(defun function-name (function)
  (sb-kernel:%fun-name function))

(defun who-calls (name package)
  (let* ((symbol (the-symbol name package))
         (known (mapcar #'car (append (sb-introspect:who-calls symbol) (sb-introspect:who-macroexpands symbol)))))
    (when (and (fboundp symbol) (not (macro-function symbol)) (not (special-operator-p symbol)))
      (dolist (caller (sb-introspect:find-function-callers (fdefinition symbol)))
        (push (function-name caller) known)))
    (listed known "Callers of" symbol)))

(defun who-references (name package)
  (let ((symbol (the-symbol name package)))
    (listed (mapcar #'car (append (sb-introspect:who-references symbol) (sb-introspect:who-sets symbol)
                                  (sb-introspect:who-binds symbol)))
            "References to" symbol)))

(defun passing (name)
  "Whether it is the name of code that was there only to define other code."
  (and (consp name) (eq (first name) 'lambda)))

(defun listed (names what symbol)
  (let* ((names (mapcar #'shown (remove-if #'passing names)))
         (names (sort (remove-duplicates names :test #'string=) #'string<)))
    (if names
        (format nil "~A ~A:~{~%~A~}" what (symbol-name symbol) names)
        (format nil "~A ~A: none found" what (symbol-name symbol)))))

(defun list-package-symbols (name internal)
  (let ((package (the-package name)) (found '()))
    (do-symbols (symbol package)
      (when (and (eq (symbol-package symbol) package)
                 (or internal (eq (nth-value 1 (find-symbol (symbol-name symbol) package)) :external)))
        (pushnew symbol found)))
    (setf found (sort found #'string<))
    (format nil "~D ~A symbol~:P in ~A:~{~%~A~}" (length found) (if internal "" "external") (package-name package)
            (loop for symbol in found repeat 1000 collect (format nil "~A [~A]" (symbol-name symbol) (kind symbol))))))

(defun named-class (name package)
  (let ((class (find-class (the-symbol name package) nil)))
    (unless class (tell "Class ~A not found" (string-upcase name)))
    (when (and (typep class 'standard-class) (not (sb-mop:class-finalized-p class)))
      (sb-mop:finalize-inheritance class))
    class))

(defun class-slots (name package)
  (let* ((class (named-class name package)) (slots (sb-mop:class-slots class)))
    (format nil "~D slot~:P of ~A:~{~%~A~}" (length slots) (class-name class)
            (loop for slot in slots collect
              (format nil "~A~@[ initargs ~S~]~:[ type ~S~;~*~]~@[ initform ~S~]"
                      (sb-mop:slot-definition-name slot) (sb-mop:slot-definition-initargs slot)
                      (eq t (sb-mop:slot-definition-type slot)) (sb-mop:slot-definition-type slot)
                      (sb-mop:slot-definition-initform slot))))))

(defun class-hierarchy (name package)
  (let ((class (named-class name package)))
    (format nil "Precedence list of ~A:~{~%~A~}~%Direct subclasses:~:[ none~;~:*~{~%~A~}~]" (class-name class)
            (mapcar #'class-name (sb-mop:class-precedence-list class))
            (mapcar #'class-name (sb-mop:class-direct-subclasses class)))))

(defun read-all (text package)
  "Every form of the text. What stands after the last one must be nothing."
  (let ((*package* package) (end (list nil)))
    (with-input-from-string (in text)
      (loop for form = (read in nil end) until (eq form end) collect form))))

(defun macroexpand-form (text full package)
  (let* ((*package* (the-package package)) (form (first (read-all text *package*))) (*print-pretty* t))
    (format nil "Original:~%~S~%~%Expansion (~:[one step~;full~]):~%~S" form full
            (if full (macroexpand form) (macroexpand-1 form)))))

(defun failed (condition)
  (list (string (type-of condition)) (remove #\Nul (princ-to-string condition))
        (with-output-to-string (out) (sb-debug:print-backtrace :stream out :count 25))))

(defmacro guarded (&body body)
  "Answers the texts of BODY behind `ok`, or `error` with type, condition and backtrace."
  `(block guarded
     (handler-bind
         ((told (lambda (c) (return-from guarded (answer "told" (text c)))))
          (sb-sys:interactive-interrupt
            (lambda (c) (declare (ignore c)) (return-from guarded (answer "cut" ""))))
          (serious-condition
            (lambda (c) (return-from guarded (apply #'answer "error" (failed c))))))
       (apply #'answer "ok" (multiple-value-list (progn ,@body))))))

(defun eval-form (text package)
  (let* ((*package* (the-package package)) (values '()) (*print-length* 200) (*print-level* 20)
         (said (with-output-to-string (*standard-output*)
                 (let ((*error-output* *standard-output*) (*trace-output* *standard-output*))
                   (dolist (form (read-all text *package*))
                     (setf values (multiple-value-list (eval form))))))))
    (values (format nil "~{~S~^~%~}" values) said (package-name *package*))))

(defun compile-form (text package)
  (let ((*package* (the-package package)) (warnings '()) (styles '()) (failure nil))
    (handler-bind
        ((style-warning (lambda (c) (push (princ-to-string c) styles) (muffle-warning c)))
         (warning (lambda (c) (push (princ-to-string c) warnings) (muffle-warning c))))
      (let ((*error-output* (make-broadcast-stream)) (*standard-output* (make-broadcast-stream)))
        (dolist (form (read-all text *package*))
          (multiple-value-bind (function warned failed) (compile nil `(lambda () ,form))
            (declare (ignore warned))
            (when failed (setf failure t))
            (when function (funcall function))))))
    (format nil "Compilation ~:[succeeded~;failed~]~@[~%Warnings:~{~%~A~}~]~@[~%Style warnings:~{~%~A~}~]"
            failure (reverse warnings) (reverse styles))))

(defun handle (form)
  (let ((*print-readably* nil) (*read-eval* t))
    (guarded
      (destructuring-bind (name &rest arguments) form
        (ecase name
          (:ping "pong")
          (:describe (apply #'describe-symbol arguments))
          (:apropos (apply #'apropos-search arguments))
          (:arglist (apply #'function-arglist arguments))
          (:calls (apply #'who-calls arguments))
          (:references (apply #'who-references arguments))
          (:symbols (apply #'list-package-symbols arguments))
          (:slots (apply #'class-slots arguments))
          (:hierarchy (apply #'class-hierarchy arguments))
          (:macroexpand (apply #'macroexpand-form arguments))
          (:eval (apply #'eval-form arguments))
          (:compile (apply #'compile-form arguments))
          (:buffers (format nil "~{~A~^~%~}" (buffers)))
          (:buffer (or (buffer (first arguments))
                       (tell "Buffer ~A not found" (first arguments))))
          (:set-buffer (setf (buffer (first arguments)) (second arguments)) "set"))))))

(defun serve ()
  (let ((*package* (find-package :toolkeep-image)))
    (loop
      (handler-case
          (let ((form (let ((*read-eval* nil)) (read *in* nil :end))))
            (when (eq form :end) (sb-ext:exit :abort t))
            (handle form))
        ;; Cut off between two forms: nothing was lost.
        (sb-sys:interactive-interrupt () nil)))))

(let ((nowhere (make-two-way-stream (make-concatenated-stream) (make-broadcast-stream))))
  (setf *standard-output* (make-broadcast-stream) *error-output* (make-broadcast-stream)
        *trace-output* (make-broadcast-stream) *query-io* nowhere *debug-io* nowhere
        *standard-input* (make-concatenated-stream) *terminal-io* nowhere))
(in-package :cl-user)
(toolkeep-image::serve)
